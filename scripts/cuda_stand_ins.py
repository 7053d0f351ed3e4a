#!/usr/bin/env python3
"""Writes small libraries in the place of CUDA's large ones, so that a LibTorch with CUDA can be loaded without them.

    scripts/cuda_stand_ins.py FOLDER_OF_TORCH

libtorch_cuda.so is linked with cuBLAS, cuDNN, cuSPARSE and others: 2 GB to fetch. They are called only when a kernel
runs on a device. A library that libtorch_cuda.so needs, and that lies in none of the folders where it looks, is made
here: it has each function that LibTorch's libraries import from it. A function that is called says its name, and ends
the process. The stand-ins lie beside libtorch_cuda.so, which is the last place where it looks: NVIDIA's packages, once
they are installed, take their place.
"""
import os
import re
import subprocess
import sys
import tempfile

# Libraries of LibTorch that ask for CUDA's, and the beginnings of the names that each of CUDA's exports. The first
# match counts.
IMPORTERS = ["libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libc10_cuda.so", "libtorch_python.so"]
OWNERS = [
    ("libcublasLt", "cublasLt"), ("libcublas", "cublas"), ("libcudnn", "cudnn"), ("libcufft", "cufft"),
    ("libcufile", "cuFile"), ("libcurand", "curand"), ("libcusolver", "cusolver"), ("libcusparseLt", "cusparseLt"),
    ("libcusparse", "cusparse"), ("libcupti", "cupti"), ("libnvrtc", "nvrtc"), ("libnvshmem_host", "nvshmem"),
    ("libnvJitLink", "nvJitLink"), ("libnvToolsExt", "nvtx"),
]
SOURCE = """#include <stdio.h>
#include <stdlib.h>
static void called(const char* name) {{
  fprintf(stderr, "%s of {library} was called, which is a stand-in: this LibTorch was installed without CUDA's large "
                  "libraries (scripts/libtorch-wheel). Install PyTorch's own dependencies to use a GPU.\\n", name);
  abort();
}}
#define STAND_IN(name) void name(void) {{ called(#name); }}
{functions}
"""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_and_folders(library):
    """The names of the libraries that `library` needs, and the folders in which it looks."""
    dynamic = output_of("readelf", "--dynamic", "--wide", library)
    folders = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    here = os.path.dirname(library)
    paths = [path.replace("$ORIGIN", here) for path in ":".join(folders).split(":") if path]
    return re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic), [os.path.normpath(path) for path in paths]


def imports_of(library):
    """The names that `library` asks others for, each with the version of the symbol, or ""."""
    lines = output_of("nm", "--dynamic", "--undefined-only", library).splitlines()
    return {tuple((line.split()[-1] + "@").replace("@@", "@").split("@")[:2]) for line in lines}


def write_stand_in(path, symbols):
    library = os.path.basename(path)
    names = sorted({name for name, _ in symbols})
    functions = "\n".join(f"STAND_IN({name})" for name in names)
    versions = sorted({version for _, version in symbols if version}) or [library]
    with tempfile.NamedTemporaryFile("w", suffix=".map") as script:
        for version in versions:
            # A symbol without a version fits any.
            here = [name for name, wanted in symbols if wanted == version or (not wanted and version == versions[0])]
            script.write(f"{version} {{ {'global: ' + '; '.join(here) + ';' if here else ''} }};\n")
        script.flush()
        command = ["gcc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-x", "c", "-", "-x", "none",
                   f"-Wl,-soname,{library}", f"-Wl,--version-script={script.name}", "-o", path]
        subprocess.run(command, input=SOURCE.format(library=library, functions=functions), check=True, text=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lib = os.path.join(os.path.abspath(sys.argv[1]), "lib")
    importers = [os.path.join(lib, name) for name in IMPORTERS if os.path.exists(os.path.join(lib, name))]
    if not importers:
        sys.exit(f"cuda_stand_ins: {lib} has no libtorch_cuda.so: this LibTorch has no CUDA")
    needed, folders, imports = [], [], set()
    for importer in importers:
        names, paths = needed_and_folders(importer)
        needed += [name for name in names if name not in needed]
        folders += [path for path in paths if path not in folders]
        imports |= imports_of(importer)
    owned = {}
    for symbol in imports:
        owner = next((owner for owner, prefix in OWNERS if symbol[0].startswith(prefix)), None)
        owned.setdefault(owner, set()).add(symbol)
    for name in needed:
        owner = next((owner for owner, _ in OWNERS if re.match(re.escape(owner) + r"\.", name)), None)
        if owner is None or any(os.path.exists(os.path.join(path, name)) for path in folders):
            continue
        write_stand_in(os.path.join(lib, name), owned.get(owner, set()))
        print(f"stand-in for {name}: {len(owned.get(owner, set()))} functions")


if __name__ == "__main__":
    main()
