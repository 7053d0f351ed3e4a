#include "lockstep/comm/shm/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

namespace lockstep::shm {
namespace {

using Copies = std::vector<std::byte*>;
using PassRound = std::function<void()>;

// Allows zero bytes and equal addresses: memcpy allows neither null nor an overlap.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

// Reads other ranks' memory between two barriers; the first one was the entry.
template <class Read>
void read_directly(Group& group, const PassRound& pass_round, Read&& read) {
  group.begin_work();
  read();
  group.end_work();
  pass_round();
}

// Splits `bytes` into pieces of at most `room`. fill(buffer, offset, length) writes this rank's staging buffer, and
// after the round drain(staging, offset, length) reads those of others, where staging(rank) returns a rank's buffer.
template <class Fill, class Drain>
void through_staging(Group& group, const PassRound& pass_round, std::size_t bytes, std::size_t room, Fill&& fill,
                     Drain&& drain) {
  int buffer = 0;
  for (std::size_t offset = 0; offset < bytes; offset += room) {
    const std::size_t length = std::min(room, bytes - offset);
    const auto staging = [&](int rank) { return group.at(group.layout().staging(rank, buffer)); };
    fill(staging(group.rank()), offset, length);
    pass_round();
    drain(staging, offset, length);
    buffer ^= 1;
  }
}

// Room for each rank's part of a staging buffer, a multiple of the cache line.
std::size_t room_per_rank(const Group& group) {
  return group.layout().staging_bytes() / static_cast<std::size_t>(group.world_size()) / kLineBytes * kLineBytes;
}

}  // namespace

void Collectives::barrier(const Call& call) {
  order_.run(
      call, nullptr, [](int) { return 0; }, [](const Copies&, const PassRound&) {});
}

void Collectives::broadcast(const Call& call, std::byte* data, std::size_t bytes, int root) {
  const bool is_root = group_.rank() == root;
  order_.run(
      call, data, [bytes](int) { return bytes; },
      [&](const Copies& copies, const PassRound& pass_round) {
        if (!copies.empty()) {
          read_directly(group_, pass_round, [&] { copy_bytes(data, copies[static_cast<std::size_t>(root)], bytes); });
          return;
        }
        through_staging(
            group_, pass_round, bytes, group_.layout().staging_bytes(),
            [&](std::byte* mine, std::size_t offset, std::size_t length) {
              if (is_root) copy_bytes(mine, data + offset, length);
            },
            [&](const auto& staging, std::size_t offset, std::size_t length) {
              if (!is_root) copy_bytes(data + offset, staging(root), length);
            });
      });
}

void Collectives::reduce_to(const Call& call, const Elements& elements, Reduction reduction, int root) {
  const bool is_root = group_.rank() == root;
  const std::size_t bytes = elements.bytes();
  const std::size_t size = element_bytes(elements.type);
  const auto reduce_here = [&](const std::byte* const* sources, std::byte* to, std::size_t length) {
    reduce(elements.type, reduction, sources, group_.world_size(), &to, 1, length / size);
  };
  order_.run(
      call, elements.data, [bytes](int) { return bytes; },
      [&](const Copies& copies, const PassRound& pass_round) {
        if (!copies.empty()) {
          read_directly(group_, pass_round, [&] {
            if (is_root) reduce_here(copies.data(), elements.data, bytes);
          });
          return;
        }
        through_staging(
            group_, pass_round, bytes, group_.layout().staging_bytes(),
            [&](std::byte* mine, std::size_t offset, std::size_t length) {
              if (!is_root) copy_bytes(mine, elements.data + offset, length);
            },
            [&](const auto& staging, std::size_t offset, std::size_t length) {
              if (!is_root) return;
              std::array<const std::byte*, kMaxRanks> sources;
              for (int rank = 0; rank < group_.world_size(); ++rank) {
                sources[static_cast<std::size_t>(rank)] = rank == root ? elements.data + offset : staging(rank);
              }
              reduce_here(sources.data(), elements.data + offset, length);
            });
      });
}

void Collectives::all_gather(const Call& call, std::byte* out, std::byte* in, std::size_t bytes) {
  gather_to(call, out, in, bytes);
}

void Collectives::gather(const Call& call, std::byte* out, std::byte* in, std::size_t bytes, int root) {
  gather_to(call, group_.rank() == root ? out : nullptr, in, bytes);
}

// `out` is null if this rank does not need the others' data.
void Collectives::gather_to(const Call& call, std::byte* out, std::byte* in, std::size_t bytes) {
  order_.run(
      call, in, [bytes](int) { return bytes; },
      [&](const Copies& copies, const PassRound& pass_round) {
        const auto place = [&](int rank) { return out + static_cast<std::size_t>(rank) * bytes; };
        if (out != nullptr) copy_bytes(place(group_.rank()), in, bytes);
        if (!copies.empty()) {
          read_directly(group_, pass_round, [&] {
            for (int rank = 0; out != nullptr && rank < group_.world_size(); ++rank) {
              if (rank != group_.rank()) copy_bytes(place(rank), copies[static_cast<std::size_t>(rank)], bytes);
            }
          });
          return;
        }
        through_staging(
            group_, pass_round, bytes, group_.layout().staging_bytes(),
            [&](std::byte* mine, std::size_t offset, std::size_t length) { copy_bytes(mine, in + offset, length); },
            [&](const auto& staging, std::size_t offset, std::size_t length) {
              for (int rank = 0; out != nullptr && rank < group_.world_size(); ++rank) {
                if (rank != group_.rank()) copy_bytes(place(rank) + offset, staging(rank), length);
              }
            });
      });
}

void Collectives::reduce_scatter(const Call& call, const Elements& out, std::byte* in, Reduction reduction) {
  const std::size_t bytes = out.bytes();
  const std::size_t size = element_bytes(out.type);
  const std::size_t room = room_per_rank(group_);
  const std::size_t all_bytes = bytes * static_cast<std::size_t>(group_.world_size());
  const std::size_t my_part = bytes * static_cast<std::size_t>(group_.rank());
  const auto reduce_here = [&](const std::array<const std::byte*, kMaxRanks>& sources, std::size_t offset,
                               std::size_t length) {
    std::byte* to = out.data + offset;
    reduce(out.type, reduction, sources.data(), group_.world_size(), &to, 1, length / size);
  };
  order_.run(
      call, in, [all_bytes](int) { return all_bytes; },
      [&](const Copies& copies, const PassRound& pass_round) {
        std::array<const std::byte*, kMaxRanks> sources;
        if (!copies.empty()) {
          read_directly(group_, pass_round, [&] {
            for (std::size_t rank = 0; rank < copies.size(); ++rank) sources[rank] = copies[rank] + my_part;
            reduce_here(sources, 0, bytes);
          });
          return;
        }
        through_staging(
            group_, pass_round, bytes, room,
            [&](std::byte* mine, std::size_t offset, std::size_t length) {
              for (int rank = 0; rank < group_.world_size(); ++rank) {
                const auto part = static_cast<std::size_t>(rank);
                if (rank != group_.rank()) copy_bytes(mine + part * room, in + part * bytes + offset, length);
              }
            },
            [&](const auto& staging, std::size_t offset, std::size_t length) {
              for (int rank = 0; rank < group_.world_size(); ++rank) {
                sources[static_cast<std::size_t>(rank)] =
                    rank == group_.rank() ? in + my_part + offset
                                          : staging(rank) + static_cast<std::size_t>(group_.rank()) * room;
              }
              reduce_here(sources, offset, length);
            });
      });
}

void Collectives::scatter(const Call& call, std::byte* out, std::byte* in, std::size_t bytes, int root) {
  const bool is_root = group_.rank() == root;
  const std::size_t room = room_per_rank(group_);
  const auto me = static_cast<std::size_t>(group_.rank());
  const auto ranks = static_cast<std::size_t>(group_.world_size());
  order_.run(
      call, is_root ? in : out, [&](int rank) { return rank == root ? ranks * bytes : bytes; },
      [&](const Copies& copies, const PassRound& pass_round) {
        if (is_root) copy_bytes(out, in + me * bytes, bytes);
        if (!copies.empty()) {
          read_directly(group_, pass_round, [&] {
            if (!is_root) copy_bytes(out, copies[static_cast<std::size_t>(root)] + me * bytes, bytes);
          });
          return;
        }
        through_staging(
            group_, pass_round, bytes, room,
            [&](std::byte* mine, std::size_t offset, std::size_t length) {
              for (std::size_t rank = 0; is_root && rank < ranks; ++rank) {
                if (rank != me) copy_bytes(mine + rank * room, in + rank * bytes + offset, length);
              }
            },
            [&](const auto& staging, std::size_t offset, std::size_t length) {
              if (!is_root) copy_bytes(out + offset, staging(root) + me * room, length);
            });
      });
}

void Collectives::all_to_all(const Call& call, std::byte* out, std::byte* in, std::size_t bytes) {
  const std::size_t room = room_per_rank(group_);
  const auto me = static_cast<std::size_t>(group_.rank());
  const auto ranks = static_cast<std::size_t>(group_.world_size());
  order_.run(
      call, in, [&](int) { return ranks * bytes; },
      [&](const Copies& copies, const PassRound& pass_round) {
        copy_bytes(out + me * bytes, in + me * bytes, bytes);
        if (!copies.empty()) {
          read_directly(group_, pass_round, [&] {
            for (std::size_t rank = 0; rank < ranks; ++rank) {
              if (rank != me) copy_bytes(out + rank * bytes, copies[rank] + me * bytes, bytes);
            }
          });
          return;
        }
        through_staging(
            group_, pass_round, bytes, room,
            [&](std::byte* mine, std::size_t offset, std::size_t length) {
              for (std::size_t rank = 0; rank < ranks; ++rank) {
                if (rank != me) copy_bytes(mine + rank * room, in + rank * bytes + offset, length);
              }
            },
            [&](const auto& staging, std::size_t offset, std::size_t length) {
              for (std::size_t rank = 0; rank < ranks; ++rank) {
                if (rank != me)
                  copy_bytes(out + rank * bytes + offset, staging(static_cast<int>(rank)) + me * room, length);
              }
            });
      });
}

}  // namespace lockstep::shm
