#include "lockstep/detail/comm/operation.h"

#include <fmt/format.h>

#include "lockstep/base/text/lower_case.h"

namespace lockstep {

const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return "sum";
    case ReduceOp::Avg:
      return "avg";
    case ReduceOp::Min:
      return "min";
    case ReduceOp::Max:
      return "max";
    case ReduceOp::Product:
      return "product";
  }
  return "unknown reduction";
}

const char* to_string(OperationKind kind) {
  switch (kind) {
    case OperationKind::AllReduce:
      return "all_reduce";
    case OperationKind::Broadcast:
      return "broadcast";
    case OperationKind::Reduce:
      return "reduce";
    case OperationKind::AllGather:
      return "all_gather";
    case OperationKind::ReduceScatter:
      return "reduce_scatter";
    case OperationKind::Gather:
      return "gather";
    case OperationKind::Scatter:
      return "scatter";
    case OperationKind::AllToAll:
      return "all_to_all";
    case OperationKind::Send:
      return "send";
    case OperationKind::Recv:
      return "recv";
    case OperationKind::Barrier:
      return "barrier";
  }
  return "unknown operation";
}

std::string Fingerprint::describe() const {
  std::string text = fmt::format("{} #{}", to_string(kind), sequence);
  if (kind == OperationKind::Barrier) return text;
  switch (kind) {
    case OperationKind::AllReduce:
    case OperationKind::ReduceScatter:
      text += fmt::format(" ({})", to_string(op));
      break;
    case OperationKind::Reduce:
      text += fmt::format(" ({}, root {})", to_string(op), root);
      break;
    case OperationKind::Broadcast:
    case OperationKind::Gather:
    case OperationKind::Scatter:
      text += fmt::format(" (root {})", root);
      break;
    case OperationKind::Send:
      text += fmt::format(" (to rank {})", root);
      break;
    case OperationKind::Recv:
      text += fmt::format(" (from rank {})", root);
      break;
    default:
      break;
  }
  return text + fmt::format(" of {} {}", count, lower_case(c10::toString(dtype)));
}

}  // namespace lockstep
