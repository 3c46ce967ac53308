"""MSCCL++ execution plans are recognised and refused: their operations are one-sided."""

from coordinator.annexes.schedules.base import RefusedScheduleError, ScheduleFile, ScheduleFormat, ScheduleSource
from coordinator.annexes.schedules.json_object import is_object, parse_object
from emunode.registry import register

ONE_SIDED = frozenset(
    {
        "put", "get", "pws", "pwsf", "signal", "wait", "rlxsignal", "rlxwait", "flush", "gstore", "glres", "barrier",
        "sem_acquire", "sem_release", "pipeline",
    }
)  # fmt: skip
"""Operations without a counterpart that receives; the first one is named."""


@register
class MscclppFormat(ScheduleFormat):
    """The JSON of the executor of MSCCL++."""

    name = "mscclpp"
    suffixes = (".json",)

    def recognises(self, source: ScheduleSource) -> bool:
        return is_object(source.data, b'"threadblocks"')

    def read(self, source: ScheduleSource) -> ScheduleFile:
        document = parse_object(source.data, "MSCCL++")
        first = ""
        gpus = document.get("gpus")
        for gpu in gpus if isinstance(gpus, list) else ():
            blocks = gpu.get("threadblocks") if isinstance(gpu, dict) else None
            for place, block in enumerate(blocks if isinstance(blocks, list) else ()):
                operations = block.get("ops") if isinstance(block, dict) else None
                for number, operation in enumerate(operations if isinstance(operations, list) else ()):
                    name = operation.get("name") if isinstance(operation, dict) else None
                    if not first and (name in ONE_SIDED or str(name).endswith("pkt")):
                        first = f"; first: gpu {gpu.get('id')}, threadblock {place}, op {number}, {str(name)[:20]}"
        raise RefusedScheduleError(
            f"MSCCL++ execution plan (gpus, threadblocks, ops): one-sided operations are not run{first}"
        )
