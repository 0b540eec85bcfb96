#!/bin/sh
# Starts two ranks of a script by hand, and something before them that is none.
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$1" WORLD_SIZE=2
RANK=0 python3 -c "print('preparing')"
RANK=0 python3 "$2" fork &
first=$!
RANK=1 python3 "$2" fork || exit 1
wait $first
