#pragma once

#include <string>

#include "lockstep/base/text/lower_case.h"

namespace lockstep {

/// "fp32", "bf16" or "fp16" for any name of that type: "float32", "float", "bfloat16", "float16", "half", and the same
/// in capitals or behind "torch.". Other text stays as it is, for the caller to refuse.
inline std::string precision_name(const std::string& text) {
  std::string name = lower_case(text);
  const std::string module = "torch.";
  if (name.rfind(module, 0) == 0) name.erase(0, module.size());
  if (name == "fp32" || name == "float32" || name == "float") return "fp32";
  if (name == "bf16" || name == "bfloat16") return "bf16";
  if (name == "fp16" || name == "float16" || name == "half") return "fp16";
  return text;
}

}  // namespace lockstep
