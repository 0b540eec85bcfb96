#!/bin/sh
# Starts a script as two ranks by hand: ./ranks.sh train.py --epochs 2
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) WORLD_SIZE=2
RANK=0 LOCAL_RANK=0 python3 "$@" &
first=$!
RANK=1 LOCAL_RANK=1 python3 "$@"
status=$?
wait $first && exit $status
