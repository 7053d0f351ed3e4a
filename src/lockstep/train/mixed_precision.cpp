#include "lockstep/detail/train/mixed_precision.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text/precision_name.h"
#include "lockstep/train/bf16_speed.h"

namespace lockstep {
namespace {

// Tries it out, because releases of LibTorch differ.
bool cpu_has_fp16_products() {
  static const bool has = [] {
    try {
      const at::Tensor matrix = at::ones({2, 2}, at::kHalf);
      return at::mm(matrix, matrix).defined();
    } catch (const c10::Error&) {
      return false;
    }
  }();
  return has;
}

}  // namespace

MixedPrecision mixed_precision_named(const std::string& text, const std::string& where) {
  const std::string name = precision_name(text);
  if (name == "no") return {};
  if (name == "bf16") return {true, at::kBFloat16};
  if (name == "fp16") return {true, at::kHalf};
  throw Error(fmt::format("mixed_precision is '{}'", name), where, "use no, fp16 or bf16");
}

void check_mixed_precision(const MixedPrecision& precision, c10::DeviceType device, const std::string& where) {
  const bool is_bf16 = precision.autocast && precision.dtype == at::kBFloat16;
  if (is_bf16 && device == c10::DeviceType::CPU) warn_of_slow_bf16();
  if (!precision.scales_loss() || device != c10::DeviceType::CPU || cpu_has_fp16_products()) return;
  throw Error("fp16 mixed precision requires a GPU: LibTorch " TORCH_VERSION " has no fp16 matrix product on the CPU",
              where, "use bf16, or no");
}

}  // namespace lockstep
