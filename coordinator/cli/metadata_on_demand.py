"""A stand-in for `importlib.metadata` that imports the module when it is used.

Pydantic imports `entry_points` for plug-ins of its own, disabled by `coordinator`, and never calls the function. The
module takes parsers of mail, CSV and zip files along: a tenth of the processor time of `coordinator plan`.
"""

import importlib
import sys
from threading import Lock
from types import ModuleType
from typing import Any

NAME = "importlib.metadata"
_removing = Lock()


class MetadataOnDemand(ModuleType):
    """The module before its first use."""

    def entry_points(self, **selected: Any) -> Any:
        """Call the function of the module: importing its name is no use."""
        return _imported().entry_points(**selected)

    def __getattr__(self, name: str) -> Any:
        """Return a value of the module. The import system itself asks for names with underscores."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_imported(), name)


def _imported() -> Any:
    with _removing:
        if isinstance(sys.modules.get(NAME), MetadataOnDemand):
            del sys.modules[NAME]
    # Without the lock: a thread that waits for another import must not keep others from theirs.
    return importlib.import_module(NAME)


def import_metadata_on_demand() -> None:
    """Put the stand-in in the place of the module, unless that has been imported already."""
    if NAME not in sys.modules:
        module = sys.modules[NAME] = MetadataOnDemand(NAME)
        # As the import system does: after `import importlib.metadata` the module is an attribute of the package.
        vars(importlib)["metadata"] = module
