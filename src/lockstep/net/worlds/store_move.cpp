#include "lockstep/net/worlds/store_move.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"

namespace lockstep {

void write_store_move(const std::string& path, const StoreMove& move) {
  write_file_atomically(path, fmt::format("{}\n{}\n{}\n", move.era, move.address, fmt::join(move.roll, " ")), 0600);
}

void forget_store_moves(const std::string& path) {
  std::error_code failure;
  std::filesystem::remove(path, failure);
  if (failure)
    throw Error("cannot remove " + path + ": " + failure.message(), "the launcher", "see who owns the folder");
}

std::optional<StoreMove> read_store_move(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  std::istringstream text(read_file(path));
  StoreMove move;
  text >> move.era >> move.address;
  if (!text) {
    throw Error(path + " does not say where the job's store is", "a rank of the job",
                "run the same version of Lockstep in the launcher and in its ranks");
  }
  for (int number = 0; text >> number;) move.roll.insert(number);
  return move;
}

}  // namespace lockstep
