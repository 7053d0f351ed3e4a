"""The peer of `lockstep bench start`: the shortest program that has LibTorch."""
import torch

print("torch", torch.__version__)
