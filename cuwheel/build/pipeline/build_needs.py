"""What a build would take, as far as it is known before: for `--dry-run` and advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cuwheel.base.system.quantities import plural, show_size
from cuwheel.build.pipeline.published import PublishedRecord, read_build
from cuwheel.build.workspace.job import Job


@dataclass(frozen=True, kw_only=True)
class BuildNeeds:
    """What a build would take.

    Attributes:
        archs: of its device code.
        jobs: parallel compiles.
        memory_per_job: bytes for each of them, by the recipe.
        disk: bytes by purpose, the work folder first; all else is missing in the cache.
        seconds: of the last build with these archs here, else of the known compiles of its recipe
            on these cores; null: not known.
    """

    archs: tuple[str, ...]
    jobs: int
    memory_per_job: int
    disk: dict[str, int]
    seconds: float | None

    def lines(self) -> Iterator[str]:
        """Yield a line for each, for a terminal."""
        yield f"archs     {' '.join(f'sm_{arch}' for arch in self.archs) or 'no device code'}"
        time = "unknown on this machine" if self.seconds is None else f"{self.seconds / 60:.1f} min"
        yield f"time      {time}"
        most = plural(self.jobs, "parallel compile")
        yield f"memory    {show_size(self.memory_per_job)} each for {most}"
        listed = (f"{show_size(size)} for {what}" for what, size in self.disk.items())
        yield f"disk      {show_size(sum(self.disk.values()))}: {', '.join(listed)}"
        missing = ", ".join(list(self.disk)[1:])  # the work folder is the first
        yield f"download  the source{', ' * bool(missing)}{missing}"


def build_needs(job: Job) -> BuildNeeds:
    """Return what a build would take."""
    from cuwheel.build.pipeline.disk_needs import disk_needs  # noqa: PLC0415 - it loads slowly

    disk = {what: size for need in disk_needs(job) for what, size in need.parts.items()}
    jobs = job.settings.jobs or job.machine.cores
    record, archs = read_build(job), job.target.archs
    return BuildNeeds(
        archs=archs,
        jobs=jobs,
        memory_per_job=job.target.recipe.memory_per_job,
        disk=disk,
        seconds=seconds_of(record, archs) or compile_seconds(job) / jobs or None,
    )


def seconds_of(record: PublishedRecord | None, archs: tuple[str, ...]) -> float:
    """Return the seconds of the last build, if it was for these archs; else 0."""
    if record is None or record.key.get("archs") != " ".join(archs):
        return 0.0
    return sum(seconds for _, seconds in record.summary.durations)


def compile_seconds(job: Job) -> float:
    """Return the processor time of a recipe's known compiles; 0 where none is known."""
    # These load slowly, and a build doesn't need them before it starts.
    from cuwheel.build.compile.cache.compile_cache import compiles_folder  # noqa: PLC0415
    from cuwheel.build.compile.seconds import known_seconds  # noqa: PLC0415
    from cuwheel.build.pipeline.package_build.shard_plan import seconds_path  # noqa: PLC0415

    folder = compiles_folder(job.workspace, job.workspace.environ) / job.target.recipe.name
    known = known_seconds(seconds_path(folder))
    return sum(sum(parts.values()) for parts in known.values())
