"""Manifests of one scenario."""

from typing import Any

import yaml

RUN = "manifest kubernetes --topology star:5 --collective broadcast --algorithm edt --hosts 6"


def documents(text: str) -> dict[tuple[str, str], Any]:
    """Return the objects of a manifest by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}


KINDS = ("compose", "swarm")
SCENARIO = "--topology star:4 --collective broadcast --algorithm edt --hosts 4"
