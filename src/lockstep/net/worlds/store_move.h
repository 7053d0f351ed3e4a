#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace lockstep {

/// What a process must know of the store that replaces a lost one.
struct StoreMove {
  std::int64_t era = 0;  ///< how many stores the ranks of this start have lost
  std::set<int> roll;    ///< the processes that ran when this store began: each of them arrives, or is lost
  std::string address;   ///< as SocketAddress::text
};

/// Tells the processes of this host, which know the path (LOCKSTEP_STORE_FILE). @throws Error  if it cannot be written
void write_store_move(const std::string& path, const StoreMove& move);
/// The ranks of a new start have lost no store.
void forget_store_moves(const std::string& path);
/// The newest move; nothing if the store has never moved.
/// @throws Error  if the file cannot be read
std::optional<StoreMove> read_store_move(const std::string& path);

}  // namespace lockstep
