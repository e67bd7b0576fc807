#!/usr/bin/env bash
# A run on the nodes of a Slurm job, which are a Ray cluster for as long as it lasts:
#
#   sbatch slurm.sh cases/ --tag quick
#
# `ray symmetric-run` (Ray 2.49 and later) starts Ray on every node, runs the command on the first one, and stops Ray when
# it ends. Each node needs a container engine that the job may use: rootless Podman, or `--engine venv`.
#SBATCH --job-name=reprokit
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=08:00:00
# #SBATCH --gpus-per-task=1
set -euo pipefail

nodes=${SLURM_JOB_NUM_NODES:?submit this file with sbatch}
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# The store lies on a file system that the first node sees; logs of other nodes come to it through Ray.
srun --nodes="$nodes" --ntasks="$nodes" \
    ray symmetric-run --address "$head:6379" --min-nodes "$nodes" --num-cpus "$SLURM_CPUS_PER_TASK" -- \
    reprokit run "$@" --on ray --json "result-$SLURM_JOB_ID.json"
