// The first action of a program that is linked with the library, however it is started.
//
// OpenBLAS chooses its kernels and starts its threads in its constructor, OpenMP reads its variables in its own, and
// both run before the program's constructors. Only functions in .preinit_array of an executable run earlier (the ELF
// specification has them for this purpose), which is why sanitizers use them as well. This file has an object of its
// own, which the linker is told to take by name (src/lockstep/CMakeLists.txt), and only for executables: a shared
// library may not have such functions. A program without this object, such as Python with an extension module, gets a
// warning about slow kernels from check_kernels.
//
// At that time the C library has not set `environ` yet. Soon after, it sets `environ` to the array that the kernel put
// on the stack, so variables added with setenv(3) would be lost. The array itself cannot grow, because the auxiliary
// vector follows it. But the dynamic linker has already read that vector, and its first entry is the address of the
// kernel's vDSO, which only the linker reads. So until the constructors of the libraries have finished, two variables
// take its place:
//
//     before   A=1  B=2  NULL        | {AT_SYSINFO_EHDR, address} {type, value} ...
//     during   A=1  B=2  OMP_..=2    | {OPENBLAS_..=.., NULL}     {type, value} ...
//
// Newer kernels have AT_MINSIGSTKSZ behind it, which the linker has read as well: two more variables take its place.
// The first constructor of the program itself restores the entries, and sets the variables in the usual way.
//
// A variable that exists already, chosen by Lockstep for another process, needs no room: its text is replaced.
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "lockstep/base/processor/heap.h"
#include "lockstep/start/standard_streams.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {
namespace {

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

constexpr std::size_t kEntries = 2;          // of the auxiliary vector that may be replaced
constexpr std::size_t kRoom = 2 * kEntries;  // for variables: an entry has the size of two pointers

// Not freed: libraries may keep the pointers that getenv(3) returned.
StartVariables* chosen = nullptr;
char* texts[kRoom] = {};

// The end of the environment on the stack, while it is extended.
struct ExtendedEnvironment {
  char** end = nullptr;
  std::size_t entries = 0;
  ElfW(auxv_t) replaced[kEntries] = {};
};
ExtendedEnvironment extended;

bool may_be_replaced(const ElfW(auxv_t) & entry) {
  return entry.a_type == AT_SYSINFO_EHDR || entry.a_type == AT_MINSIGSTKSZ ||
         entry.a_type == AT_IGNORE;  // valgrind leaves AT_IGNORE
}

// Variables that libraries read in their constructors, the most important ones first. OpenBLAS follows OMP_NUM_THREADS
// if its own variable is not set.
bool is_read_by_constructors(const std::string& name) {
  return name == "OPENBLAS_CORETYPE" || name == "OMP_NUM_THREADS" || name == "GOMP_SPINCOUNT";
}

bool is_of(const char* entry, const std::string& name) {
  return std::strncmp(entry, name.c_str(), name.size()) == 0 && entry[name.size()] == '=';
}

void exchange(char** environment) {
  for (const auto& [name, value] : *chosen) {
    for (char** entry = environment; *entry != nullptr; ++entry) {
      if (!is_of(*entry, name)) continue;
      if (char* const text = ::strdup((name + "=" + value).c_str())) *entry = text;
    }
  }
}

bool has(char** environment, const std::string& name) {
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (is_of(*entry, name)) return true;
  }
  return false;
}

void extend(char** environment) {
  char** end = environment;
  while (*end != nullptr) ++end;
  auto* const first = reinterpret_cast<ElfW(auxv_t)*>(end + 1);
  std::size_t replaceable = 0;
  while (replaceable < kEntries && may_be_replaced(first[replaceable])) ++replaceable;
  std::size_t used = 0;
  for (const auto& [name, value] : *chosen) {
    if (used == 2 * replaceable || !is_read_by_constructors(name) || has(environment, name)) continue;
    char* const text = ::strdup((name + "=" + value).c_str());
    if (text == nullptr) return;
    texts[used++] = text;
  }
  if (used == 0) return;
  extended.end = end;
  extended.entries = (used + 1) / 2;
  std::memcpy(extended.replaced, first, extended.entries * sizeof(*first));
  // Uses all of the room: a vector whose next type is zero would look as if it ended. The first of two equal entries
  // counts.
  for (std::size_t i = 0; i < 2 * extended.entries; ++i) end[i] = texts[i < used ? i : 0];
  end[2 * extended.entries] = nullptr;
}

// The heap and the standard streams need no variables.
void prepare_process(int, char**, char** environment) {
  open_missing_streams();
  const bool libc_has_started = environ != nullptr;  // true in a statically linked program
  if (!libc_has_started) environ = environment;
  try {
    keep_freed_memory();
  } catch (...) {  // a misspelt LOCKSTEP_MALLOC is reported when the program joins its group
  }
  try {
    chosen = new StartVariables(variables_for_this_process(/*heap=*/false));
    exchange(environment);
    if (!libc_has_started && !chosen->empty()) extend(environment);
  } catch (...) {  // out of memory: the program starts as if this file did not exist
  }
}

// Runs before all other constructors of the program, and after those of its libraries.
__attribute__((constructor(101))) void finish_environment() {
  if (extended.end != nullptr) {
    *extended.end = nullptr;
    std::memcpy(extended.end + 1, extended.replaced, extended.entries * sizeof(*extended.replaced));
    extended.end = nullptr;
  }
  if (chosen == nullptr) return;
  for (const auto& [name, value] : *chosen) {
    ::setenv(name.c_str(), value.c_str(), name == kChosenVariable ? 1 : 0);  // a constructor may have set its own
  }
}

}  // namespace
}  // namespace lockstep

extern "C" {
/// The linker is told to look for this name, so it includes the object.
__attribute__((section(".preinit_array"), used)) void (*lockstep_preinit)(int, char**,
                                                                          char**) = lockstep::prepare_process;
}
