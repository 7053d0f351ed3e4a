#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// How the values of all ranks become one. `Avg` is the sum divided by the number of ranks, for floating point only.
enum class ReduceOp { Sum, Avg, Min, Max, Product };

enum class OperationKind {
  AllReduce,
  Broadcast,
  Reduce,
  AllGather,
  ReduceScatter,
  Gather,
  Scatter,
  AllToAll,
  Send,
  Recv,
  Barrier
};

const char* to_string(ReduceOp op);
const char* to_string(OperationKind kind);
/// True for send and recv.
inline bool is_point_to_point(OperationKind kind) { return kind == OperationKind::Send || kind == OperationKind::Recv; }

/// The next operation of a rank. Ranks of a group must make the same calls in the same order. Each engine sends this
/// with its messages and compares it, so that all ranks that disagree get an error that names both sides.
struct Fingerprint {
  OperationKind kind = OperationKind::Barrier;
  ReduceOp op = ReduceOp::Sum;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int root = 0;                ///< rank of the root, or of the other rank of send and recv
  std::int64_t count = 0;      ///< elements of one rank's share
  std::uint64_t sequence = 0;  ///< number of this operation in its group; for send and recv, between the two ranks

  friend bool operator==(const Fingerprint& a, const Fingerprint& b) {
    return a.kind == b.kind && a.op == b.op && a.dtype == b.dtype && a.root == b.root && a.count == b.count &&
           a.sequence == b.sequence;
  }
  friend bool operator!=(const Fingerprint& a, const Fingerprint& b) { return !(a == b); }
  /// "all_reduce #41 (sum) of 1000 float"
  std::string describe() const;
};

/// The arguments that an engine gets besides the tensors.
struct Operation {
  Fingerprint fingerprint;
  Deadline deadline = Deadline::never();
  int tag = 0;                       ///< for send and recv
  bool staged = false;               ///< the tensors are contiguous copies that live no longer than the `do_*` call
  std::uint32_t enclosing_mark = 0;  ///< of the larger operation that this call is a step of; 0: no such operation
};

}  // namespace lockstep
