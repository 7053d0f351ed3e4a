#include "lockstep/comm/failure/nccl_advice.h"

namespace lockstep {

std::string advice_after(const std::string& text) {
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (has("/dev/shm") || has("shared memory")) {
    return "NCCL needs more shared memory than a container has by default (64 MB): start it with --shm-size=1g or "
           "--ipc=host, or mount a volume in memory at /dev/shm of a pod; df -h /dev/shm shows its size";
  }
  if (has("out of memory")) {
    return "NCCL's buffers and the program's tensors do not fit into the device's memory: check nvidia-smi for other "
           "processes, or use a smaller batch";
  }
  if (has("Too many open files") || has("RLIMIT_NOFILE")) return "raise the limit of open files: ulimit -n 65536";
  if (has("No route to host") || has("Connection refused") || has("no socket interface") || has("ifname")) {
    return "NCCL connects by an interface of its own choice, or by NCCL_SOCKET_IFNAME: name the one over which the "
           "hosts reach each other, and let NCCL's ports through between them";
  }
  if (has("driver version is insufficient") || has("no kernel image")) {
    return "the driver or the device is older than this LibTorch's CUDA needs: compare nvidia-smi with the wheel";
  }
  return "run with NCCL_DEBUG=INFO to see what NCCL does; look at nvidia-smi and the system's log";
}

}  // namespace lockstep
