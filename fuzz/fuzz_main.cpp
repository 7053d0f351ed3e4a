// libFuzzer's program: lockstep-fuzz --target=NAME [libFuzzer's arguments]. scripts/fuzz builds and runs it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fuzz/fuzz_target.h"
#include "lockstep/base/error.h"

namespace {

const lockstep::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  const std::string flag = "--target=";
  for (int i = 1; i < *count; ++i) {
    const char* word = (*words)[i];
    if (std::strncmp(word, flag.c_str(), flag.size()) != 0) continue;
    try {
      chosen = &lockstep::fuzz::find_target(word + flag.size());
    } catch (const lockstep::Error& error) {
      std::fprintf(stderr, "lockstep-fuzz: %s\n", error.what());
      std::exit(2);
    }
  }
  if (chosen != nullptr) return 0;
  std::fputs("usage: lockstep-fuzz --target=NAME [CORPUS...] [-max_total_time=SECONDS ...]\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::run_target(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
