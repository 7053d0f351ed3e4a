#include "lockstep/comm/reduce/elements.h"

namespace lockstep {

shm::Element element_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return shm::Element::F64;
    case c10::ScalarType::Half:
      return shm::Element::F16;
    case c10::ScalarType::BFloat16:
      return shm::Element::BF16;
    case c10::ScalarType::Int:
      return shm::Element::I32;
    case c10::ScalarType::Long:
      return shm::Element::I64;
    case c10::ScalarType::Byte:
      return shm::Element::U8;
    default:
      return shm::Element::F32;
  }
}

shm::Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Avg:
      return shm::Reduction::Avg;
    case ReduceOp::Min:
      return shm::Reduction::Min;
    case ReduceOp::Max:
      return shm::Reduction::Max;
    case ReduceOp::Product:
      return shm::Reduction::Product;
    default:
      return shm::Reduction::Sum;
  }
}

}  // namespace lockstep
