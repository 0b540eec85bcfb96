#!/bin/sh
# Starts two ranks of odd.py; ends as the second one does.
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$1" WORLD_SIZE=2
RANK=0 python3 odd.py "$2" &
RANK=1 python3 odd.py "$2"
status=$?
wait
# The test compares it with the watcher's exit code.
echo $status >ended
exit $status
