#include "lockstep/train/bf16_speed.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSize = 256;     // 34 million operations: less than a millisecond at the usual speeds
constexpr int kTurns = 5;               // the fastest counts, since other programs disturb single ones
constexpr double kLeastSpeedup = 0.95;  // less than that is not noise

double seconds_of_product(const at::Tensor& x, const at::Tensor& weight) {
  const auto begin = std::chrono::steady_clock::now();
  at::linear(x, weight);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double measure_bf16_speedup() {
  const at::NoGradGuard no_grad;
  const at::Tensor fp32 = at::ones({kSize, kSize});
  const at::Tensor bf16 = fp32.to(at::kBFloat16);
  double fp32_s = std::numeric_limits<double>::max();
  double bf16_s = fp32_s;
  for (int turn = -1; turn < kTurns; ++turn) {  // the first turn prepares the kernels
    const double one_s = seconds_of_product(fp32, fp32);
    const double other_s = seconds_of_product(bf16, bf16);
    if (turn < 0) continue;
    fp32_s = std::min(fp32_s, one_s);
    bf16_s = std::min(bf16_s, other_s);
  }
  return fp32_s / bf16_s;
}

}  // namespace

double bf16_speedup() {
  static const double speedup = measure_bf16_speedup();
  return speedup;
}

std::string slow_bf16_warning(double speedup) {
  if (speedup >= kLeastSpeedup) return "";
  return fmt::format(
      "bf16 is {:.2g} times as fast as fp32 on this processor (products of {} x {} matrices): use fp32, which is "
      "leaving out --bf16, or mixed_precision 'no'",
      speedup, kSize, kSize);
}

void warn_of_slow_bf16() {
  static std::atomic<bool> looked{false};
  if (looked.exchange(true) || env_string("RANK").value_or("0") != "0") return;
  const std::string warning = slow_bf16_warning(bf16_speedup());
  if (!warning.empty()) log_warning("{}", warning);
}

}  // namespace lockstep
