#include "lockstep/comm/nccl/nccl_types.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

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
      throw Error(fmt::format("NCCL has no type for {}", c10::toString(dtype)), "engine nccl",
                  "convert the tensor to fp32, fp64, fp16, bf16, int32, int64 or uint8");
  }
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
