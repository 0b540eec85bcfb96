#!/bin/sh
# Says to a script of torchrun's style what Open MPI says: mpirun -n 2 ./openmpi.sh train.py --epochs 2
export RANK="$OMPI_COMM_WORLD_RANK" WORLD_SIZE="$OMPI_COMM_WORLD_SIZE" LOCAL_RANK="$OMPI_COMM_WORLD_LOCAL_RANK"
exec python3 "$@"
