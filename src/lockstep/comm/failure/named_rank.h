#pragma once

#include <string>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// A rank as messages write it, with its number in the job as data.
struct NamedRank {
  std::string name;  ///< see name_of
  int in_job = -1;   ///< its rank in the job; -1: not known
};

/// "rank 2 on host-a (process 4711)", or "rank 0 (4 of the job) on host-a (process 4711)" in a group with its own
/// numbering of ranks. The process is left out if several ranks of the group share it.
std::string name_of(const Membership& membership, int rank);
NamedRank named_rank(const Membership& membership, int rank);

/// "the start of group "default"": the operation of ranks that connect a group.
std::string start_of_group(const Membership& membership);

}  // namespace lockstep
