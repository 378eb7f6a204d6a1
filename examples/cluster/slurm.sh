#!/bin/bash
# A job of 2 machines with 4 processes each: sbatch examples/cluster/slurm.sh train.py
#SBATCH --job-name=rushlight
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
set -euo pipefail
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# one launcher a machine; the machines meet at the first one, and restart together where a process fails
srun rushlight-run --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node 4 --max-restarts 3 \
    --rdzv-backend c10d --rdzv-endpoint "$first:29400" --rdzv-id "$SLURM_JOB_ID" "$@"
