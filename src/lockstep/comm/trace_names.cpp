#include "lockstep/comm/trace_names.h"

#include <c10/core/ScalarType.h>

#include <string>

#include "lockstep/detail/comm/operation.h"

namespace lockstep {
namespace {

std::string operation_name(int operation) { return to_string(static_cast<OperationKind>(operation)); }

// As PyTorch names it.
std::string dtype_name(int dtype) {
  switch (static_cast<c10::ScalarType>(dtype)) {
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::BFloat16:
      return "bfloat16";
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    case c10::ScalarType::Bool:
      return "bool";
    default:
      return c10::toString(static_cast<c10::ScalarType>(dtype));
  }
}

}  // namespace

TraceNames names_in_traces() { return {&operation_name, &dtype_name}; }

}  // namespace lockstep
