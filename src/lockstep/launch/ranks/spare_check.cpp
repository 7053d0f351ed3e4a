#include <elf.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/companion_path.h"
#include "lockstep/launch/ranks/spare_message.h"
#include "lockstep/launch/ranks/spare_ranks.h"

namespace lockstep {
namespace {

// Whether the dynamic linker, which preloads libraries, starts the program: its headers then name an interpreter.
bool has_dynamic_linker(std::ifstream& file) {
  Elf64_Ehdr header{};
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return false;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + static_cast<std::size_t>(i) * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&part), sizeof(part))) return false;
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

}  // namespace

std::string spare_library_path() { return companion_path(kSpareLibrary); }

void check_spares_are_possible(const std::string& file) {
  const std::string library = spare_library_path();
  if (::access(library.c_str(), R_OK) != 0) {
    throw UsageError("--warm-spares needs " + library + ", which does not exist", "command line",
                     "build target lockstep_spare, or install it beside lockstep");
  }
  std::ifstream program(file, std::ios::binary);
  if (!program) return;  // reported when it is started
  if (has_dynamic_linker(program)) return;
  throw UsageError("--warm-spares with " + file + ", which is not a dynamically linked program", "command line",
                   "name the program itself in place of a script, or leave out --warm-spares");
}

}  // namespace lockstep
