"""`coordinator export lesson`."""

from coordinator.annexes.exports.command import RunExport
from coordinator.annexes.lesson.page import write_lesson
from coordinator.api.console import on_stderr
from coordinator.api.runs import Run
from coordinator.campaigns.session import phase_of
from coordinator.cli.output import as_command
from coordinator.cli.verify import warn_unverified
from emunode.terminal import print_json, say


@as_command
class LessonExport(RunExport):
    """Write a page in which anybody steps through a run and breaks any node or link.

    The page is one file and needs no network. It has the run with each node crashed, and each link cut, before each step.

    Examples:
      coordinator export lesson runs/star-4-broadcast-edt lesson.html
      coordinator export lesson runs/star-4-broadcast-edt/latest lesson.html --json
    """

    what = "lesson"

    def __call__(self) -> int:
        data = Run.read(self.run).data
        warn_unverified([data.path])
        with on_stderr("lesson", "nothing is written, and the same command begins again") as progress:
            written = write_lesson(data, self.file, phase_of(progress, 1, [1]))
        if self.json:
            print_json({"written": {self.what: str(written)}})
        else:
            say(f"wrote {self.what}: {written}", lines=False)
        return 0
