// A program that is linked with the library, for tests of how processes start. Calls nothing of the library before it
// prints, one NAME=VALUE a line, what the libraries below LibTorch have made of their environment. With the argument
// "bf16" it multiplies matrices in bf16; with "join" it joins a process group of one rank; with "join-as-rank" one that
// the environment describes, and then one of one rank; with "forget-and-join" it first forgets who chose the kernels,
// so that they look like OpenBLAS's own choice.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/blas.h"
#include "lockstep/base/processor/compute_threads.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/start/kernel_choice.h"

namespace {

void say(const char* name, const std::string& value) { std::printf("%s=%s\n", name, value.c_str()); }

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "unset" : value;
}

// Whether malloc keeps what is freed: a block that is taken again has its pages then.
bool keeps_freed_memory() {
  constexpr std::size_t kBytes = 64 << 20;
  const auto new_pages = [] {
    rusage before{};
    rusage after{};
    ::getrusage(RUSAGE_SELF, &before);
    const std::unique_ptr<volatile char[]> block(new volatile char[kBytes]);
    for (std::size_t i = 0; i < kBytes; i += 4096) block[i] = 1;
    ::getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
  };
  new_pages();
  return new_pages() < 4;
}

// The kernel's own copy of the vector that stands behind the environment.
bool auxiliary_vector_is_whole() {
  std::ifstream file("/proc/self/auxv", std::ios::binary);
  unsigned long entry[2] = {};
  while (file.read(reinterpret_cast<char*>(entry), sizeof(entry)) && entry[0] != AT_NULL) {
    const bool is_plain = entry[0] != AT_HWCAP && entry[0] != AT_HWCAP2;  // glibc answers with its own view of these
    if (is_plain && ::getauxval(entry[0]) != entry[1]) return false;
  }
  return true;
}

int run(int argc, char** argv) {
  say("kernels", lockstep::blas_kernels());
  say("blas_threads", std::to_string(lockstep::loaded_blas().num_threads));
  say("openmp_threads", std::to_string(lockstep::openmp_threads()));
  say("torch_threads", std::to_string(at::get_num_threads()));
  for (const char* name : {"OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                           "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "LOCKSTEP_CHOSEN", "LAST_WORD"}) {
    say(name, variable(name));
  }
  say("heap", keeps_freed_memory() ? "keeps" : "gives back");
  say("auxiliary_vector", auxiliary_vector_is_whole() ? "whole" : "changed");
  for (const int number : {0, 1, 2}) {
    if (::fcntl(number, F_GETFD) < 0) say("closed", std::to_string(number));
  }
  std::fflush(stdout);
  const std::string order = argc > 1 ? argv[1] : "";
  if (order == "bf16") {
    const at::Tensor ones = at::ones({256, 256}, at::kBFloat16);
    say("product", std::to_string(at::matmul(ones, ones).to(at::kFloat).sum().item<float>()));
  }
  if (order == "forget-and-join") ::unsetenv("OPENBLAS_CORETYPE");
  if (order == "join" || order == "forget-and-join") {
    lockstep::init_process_group("", "env://", 1, 0);
    lockstep::destroy_process_group();
    say("joined", "yes");
  }
  if (order == "join-as-rank") {
    lockstep::init_process_group();
    say("torch_threads_in_group", std::to_string(at::get_num_threads()));
    say("blas_threads_in_group", std::to_string(lockstep::loaded_blas().num_threads));
    lockstep::destroy_process_group();
    lockstep::init_process_group("", "env://", 1, 0);
    say("torch_threads_in_group_of_one", std::to_string(at::get_num_threads()));
    lockstep::destroy_process_group();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "start_report: error: %s\n", error.what());
    return 1;
  }
}
