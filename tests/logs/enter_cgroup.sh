#!/bin/sh
# enter_cgroup.sh GROUP COMMAND...: run a command in a cgroup.
echo $$ > "$1/cgroup.procs" && shift && exec "$@"
