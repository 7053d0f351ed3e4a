#include "lockstep/comm/nccl/nccl_types.h"

namespace lockstep {

ncclDataType_t nccl_type(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return ncclFloat32;
    case c10::ScalarType::Double:
      return ncclFloat64;
    case c10::ScalarType::Half:
      return ncclFloat16;
    case c10::ScalarType::BFloat16:
      return ncclBfloat16;
    case c10::ScalarType::Int:
      return ncclInt32;
    case c10::ScalarType::Long:
      return ncclInt64;
    case c10::ScalarType::Byte:
      return ncclUint8;
    default:
      return ncclUint8;
  }
}

std::size_t nccl_elements(c10::ScalarType dtype) {
  const bool is_moved_as_bytes = nccl_type(dtype) == ncclUint8;
  return is_moved_as_bytes ? c10::elementSize(dtype) : 1;
}

ncclRedOp_t nccl_reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::Avg:
      return ncclAvg;
    case ReduceOp::Min:
      return ncclMin;
    case ReduceOp::Max:
      return ncclMax;
    case ReduceOp::Product:
      return ncclProd;
    default:
      return ncclSum;
  }
}

}  // namespace lockstep
