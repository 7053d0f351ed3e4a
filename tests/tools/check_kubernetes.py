"""Checks the manifests that `lockstep kubernetes` writes.

    check_kubernetes.py ranks LOCKSTEP    starts each pod's command with the pod's variables, on this machine: do all ranks meet?
    check_kubernetes.py schema LOCKSTEP   compares them with the schema of Kubernetes' API, which kubernetes-validate of PyPI has;
                                   ends with 77 if LOCKSTEP_KUBERNETES_PYTHON (default: this Python) does not have it
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile

SAYS_RANK = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE"]
VARIANTS = {
    "fixed": ["--nodes", "2", "--nproc-per-node", "2"],
    "elastic": ["--nodes", "2:2", "--nproc-per-node", "2"],
    "everything": ["--nodes", "2", "--gpus-per-node", "2", "--cpus", "1.5", "--memory", "8Gi", "--volume", "results:/results",
                   "--volume", "data:/data", "--name", "train", "--namespace", "team", "--secret", "kept"],
}


def manifests(lockstep, flags, program):
    return subprocess.run([lockstep, "kubernetes", "--image", "registry.example.org/train:1", *flags, "--", *program],
                          check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout


def scalars_behind(pattern, text):
    return [json.loads(found) for found in re.findall(pattern, text)]


def pod_of(text, index):
    """The command and the variables of the pod, on this machine."""
    name, = scalars_behind(r"kind: Job\nmetadata:\n  name: (\".*\")", text)
    env = dict(re.findall(r"- name: (\w+)\n +value: \"(.*)\"", text))
    if "- name: PET_NODE_RANK\n" in text:
        env["PET_NODE_RANK"] = str(index)  # from the annotation
    env["LOCKSTEP_SECRET"], = scalars_behind(r"stringData:\n  secret: (\".*\")", text)
    env = {key: value.replace(f"{name}-0.{name}", "127.0.0.1") for key, value in env.items()}
    command, = scalars_behind(r"command: (\[.*\])", text)
    return command, env


def check_ranks(lockstep):
    folder = os.path.dirname(os.path.abspath(lockstep))
    for variant in ("fixed", "elastic"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        text = manifests(lockstep, [*VARIANTS[variant], "--port", port], SAYS_RANK)
        pods = []
        for index in range(2):
            command, env = pod_of(text, index)
            env = {**os.environ, **env, "PATH": folder + os.pathsep + os.environ["PATH"]}
            pods.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        said = sorted(line for pod in pods for line in pod.communicate(timeout=120)[0].splitlines())
        codes = [pod.returncode for pod in pods]
        if said != [f"rank {rank} of 4" for rank in range(4)] or codes != [0, 0]:
            sys.exit(f"{variant}: {said}, exit codes {codes}, by\n{text}")
        print(f"{variant}: two pods with two ranks each met")


def check_schema(lockstep):
    python = os.environ.get("LOCKSTEP_KUBERNETES_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import kubernetes_validate"], stderr=subprocess.DEVNULL).returncode != 0:
        print(f"skipped: {python} has no kubernetes-validate; pip install it, and name its Python by LOCKSTEP_KUBERNETES_PYTHON")
        sys.exit(77)
    for variant, flags in VARIANTS.items():
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(manifests(lockstep, flags, ["./train", "--note", "it's \"quoted\": {yes}"]))
            file.flush()
            if subprocess.run([python, "-m", "kubernetes_validate", "--strict", file.name]).returncode != 0:
                sys.exit(f"{variant}: refused")
        print(f"{variant}: as the schema asks")


if len(sys.argv) != 3 or sys.argv[1] not in ("ranks", "schema"):
    sys.exit(__doc__)
(check_ranks if sys.argv[1] == "ranks" else check_schema)(sys.argv[2])
