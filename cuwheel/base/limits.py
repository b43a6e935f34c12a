"""Limits on the size of input from outside, each with its unit and its reason.

Wheels, libraries, index pages, locks, logs and patches come from strangers. A few kilobytes can
unpack to gigabytes, and one entry of a table can cost a hundred times its size in memory. Each
limit lies far above all known input of its kind, and below the harmful: reading costs less than
`MEMORY`. Larger input is refused, with a message that names the limit.

Standard library only: `cuwheel.bootstrap` and scripts of foreign interpreters can read it.
"""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30

MEMORY = 1 * GIB  # bytes that reading one file may cost; the fuzzing checks it

# Wheels.
METADATA = 4 * MIB  # bytes of METADATA or WHEEL; descriptions of a megabyte exist
BRACKETS = 100  # of a requirement; its parser is recursive
VARIANT = MIB  # bytes of variant.json; a wheel's own has 500
RECORD = 16 * MIB  # bytes of RECORD, a row of 120 for each file; torch, with 13,000, has 1.5 MB
RECORD_ROWS = 300_000  # as many as a table of members can hold
ARCHIVE_TABLE = 16 * MIB  # bytes of a zip's table of members, which zipfile reads in one go
MEMBER = 16 * GIB  # bytes of a member, unpacked; reading it costs 6 MB of memory for each GiB
WHEEL = 64 * GIB  # bytes of all members, unpacked; deflate makes a thousand of one
FAULTS = 200  # of one kind that are reported of a wheel

SOURCE = 256 << 10  # bytes of a small file of a wheel that is searched as a whole, or parsed
SOURCES = 32 * MIB  # bytes of a wheel's modules that are kept; vllm, with 1,600, has 18 MB

# ELF files: a million sections or symbols cost a gigabyte as objects.
ELF_TABLE = 16 * MIB  # bytes of a table of headers: 260,000 sections; a cubin has five a kernel
ELF_TAGS = 64 << 10  # bytes of the dynamic section, 4,096 entries; large libraries have 60
ELF_NAMES = 128 * MIB  # bytes of names that are kept; those of libtorch_cpu are 60 MB
ELF_NAME = 4096  # bytes of one name
ELF_SYMBOLS = 2_000_000  # symbols that are read one by one; large libraries have 500,000
ELF_VERSIONS = 1 << 12  # symbol versions that a file needs; large libraries need 60

# Device code.
FATBINS = 1 << 18  # fat binaries in a file; NVIDIA's largest libraries have thousands
ELEMENTS = 512  # kinds of code, and archs, in one file; nvcc knows 30 of these
ELEMENT_HEADER = 1 << 16  # bytes, with the options of a command line; read off: up to 200
DEVICE_CODE = 512 * MIB  # bytes of one cubin or PTX, unpacked; one of cuBLASLt has 40 MiB
SECTION_PADDING = 512 * MIB  # bytes of zeros between two fat binaries; `slim` leaves some

# Responses of servers that aren't pinned files.
INDEX_PAGE = 32 * MIB  # bytes of an index page, unpacked; the largest on PyPI have 10 MB
INDEX_TAGS = 400_000  # tags or objects on it, three for each file; 20,000 files are years of nights
INDEX_TAG = 64 << 10  # bytes of one tag
INDEX_FILE = 16 * GIB  # bytes of a file that a check of an index downloads; torch's have 3 GB
SNAPSHOT = 128 * MIB  # bytes of the record of an earlier index; 300,000 files

GIT = 60.0  # seconds that git reads a repository, whose files may be FIFOs

# Files that are read whole.
TEXT = 16 * MIB  # bytes of a setting, a page, a record: all that isn't listed here
JSON = 16 * MIB  # bytes of provenance, `mirror.json`, notes of probes
YAML = 4 * MIB  # bytes of YAML; parsed it takes a hundred times as much; conda locks have 42 kB
LOCK = 4 * MIB  # bytes of a lock of PyPI's packages, likewise; the largest here has 306 kB
PATCH = 8 * MIB  # bytes of a patch, likewise
PYTHON = 1 * MIB  # bytes of a module that is parsed, a thousand times as much
CMAKE = 4 * MIB  # bytes of a CMake file, a hundred times
NESTED = 100  # levels of YAML
PATCHED_FILE = 8 * MIB  # bytes of a file that a patch changes; generated sources have a megabyte
LIBRARY = 64 * MIB  # bytes of a C++ runtime that is searched for names; it has 2 MB
LAST_OF_LOG = 4 * MIB  # bytes of a log's end that are read; whole logs are read in blocks

# Output of a package's own code: its build, its hooks, its imports.
EVENTS = 256 * MIB  # bytes of a build's event log; a compile and its tools are 1.5 kB
CACHE_LOG = 256 * MIB  # bytes of a compile cache's log; 200 for each compile
CALLED = 1 * MIB  # bytes of names of programs that were called
ANSWER = 64 * MIB  # bytes of a probe's answer; the names of PyTorch's modules are 200 kB
LOADER = 64 * MIB  # bytes of the loader's output for a process; of one with PyTorch 200 kB
PROCESSES = 1000  # processes of which that is read

# Source archives.
SOURCE_UNPACKED = 16 * GIB  # bytes; far above any sdist, low enough to save the disk
SOURCE_MEMBERS = 500_000  # files and folders

# Time. `CUWHEEL_SLOW_NETWORK` stretches all of it: cuwheel/base/fetch/retry.py.
NETWORK_RATE = 4096  # bytes a second; a slower transfer is a fault, or an attack
NETWORK_TOTAL = 4 * 3600.0  # seconds for one file or one installation
# Seconds in which a program that downloads has to do something: a server may take uv's and pip's
# own time-out to begin its answer, and gets a second request.
PROGRAM_WINDOW = 90.0
