#include "lockstep/models/rotary/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kTurn = 2 * 3.14159265358979323846;

std::int64_t original_positions(const RopeSettings& rope, std::int64_t max_positions) {
  return rope.original_max_position_embeddings > 0 ? rope.original_max_position_embeddings : max_positions;
}

// theta^(2i / head size)
at::Tensor wave_lengths(const RopeSettings& rope, std::int64_t head_size) {
  const auto options = at::TensorOptions().dtype(at::kFloat);
  return at::pow(rope.theta, at::arange(0, head_size, 2, options) / static_cast<double>(head_size));
}

at::Tensor llama3_frequencies(const RopeSettings& rope, const at::Tensor& plain, std::int64_t max_positions) {
  const auto context = static_cast<double>(original_positions(rope, max_positions));
  const at::Tensor lengths = at::reciprocal(plain) * kTurn;
  const at::Tensor is_long = lengths.gt(context / rope.low_freq_factor);
  const at::Tensor is_short = lengths.lt(context / rope.high_freq_factor);
  const at::Tensor stretched = at::where(is_long, plain / rope.factor, plain);
  const at::Tensor smooth =
      (at::reciprocal(lengths) * context - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor between = (1 - smooth) * stretched / rope.factor + smooth * stretched;
  return at::where(is_long.logical_or(is_short), stretched, between);
}

double yarn_factor(const RopeSettings& rope, std::int64_t max_positions) {
  if (rope.factor > 0) return rope.factor;
  return static_cast<double>(max_positions) / static_cast<double>(original_positions(rope, max_positions));
}

// Between the pair that turns `beta_fast` times within the original context and the one that turns `beta_slow` times.
at::Tensor yarn_ramp(const RopeSettings& rope, std::int64_t head_size, std::int64_t max_positions) {
  const auto size = static_cast<double>(head_size);
  const auto context = static_cast<double>(original_positions(rope, max_positions));
  const auto pair_of = [&](double turns) {
    return size * std::log(context / (turns * kTurn)) / (2 * std::log(rope.theta));
  };
  double low = pair_of(rope.beta_fast), high = pair_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;  // as Hugging Face, against a division by 0
  return ((at::arange(head_size / 2, at::TensorOptions().dtype(at::kFloat)) - low) / (high - low)).clamp(0, 1);
}

at::Tensor yarn_frequencies(const RopeSettings& rope, std::int64_t head_size, std::int64_t max_positions) {
  const at::Tensor lengths = wave_lengths(rope, head_size);
  const at::Tensor plain = at::reciprocal(lengths);
  const at::Tensor stretched = at::reciprocal(lengths * yarn_factor(rope, max_positions));
  const at::Tensor kept = 1 - yarn_ramp(rope, head_size, max_positions);
  return stretched * (1 - kept) + plain * kept;
}

// As at::mul and addcmul of the halves, without the copy that puts one half behind the other.
class Rotate : public torch::autograd::Function<Rotate> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosines,
                            const at::Tensor& sines) {
    context->save_for_backward({cosines, sines});
    const std::int64_t half = x.size(-1) / 2;
    const at::Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
    at::Tensor out = at::empty_like(x, at::MemoryFormat::Contiguous);
    at::Tensor first_out = out.narrow(-1, 0, half), second_out = out.narrow(-1, half, half);
    at::mul_out(first_out, first, cosines).addcmul_(second, sines, -1);
    at::mul_out(second_out, second, cosines).addcmul_(first, sines);
    return out;
  }

  // Turns back, which is differentiable as forward is.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {Rotate::apply(gradients[0], saved[0], -saved[1]), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rope_frequencies(const RopeSettings& rope, std::int64_t head_size, std::int64_t max_positions) {
  if (rope.type == RopeSettings::Type::Yarn) return yarn_frequencies(rope, head_size, max_positions);
  const at::Tensor plain = at::reciprocal(wave_lengths(rope, head_size));
  if (rope.type == RopeSettings::Type::Linear) return plain / rope.factor;
  return rope.type == RopeSettings::Type::Llama3 ? llama3_frequencies(rope, plain, max_positions) : plain;
}

double rope_attention_factor(const RopeSettings& rope, std::int64_t max_positions) {
  if (rope.type != RopeSettings::Type::Yarn) return 1;
  if (rope.attention_factor) return *rope.attention_factor;
  const double factor = yarn_factor(rope, max_positions);
  const auto scale = [&](double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1; };
  const bool has_both = rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0;
  return has_both ? scale(*rope.mscale) / scale(*rope.mscale_all_dim) : scale(1);
}

RotaryAngles rotation_of(const RotarySettings& s, const at::Tensor& positions) {
  const at::Tensor frequencies = rope_frequencies(s.rope, s.head_size(), s.max_position_embeddings);
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(-1).unsqueeze(-1) * frequencies.to(positions.device());
  const double factor = rope_attention_factor(s.rope, s.max_position_embeddings);
  return {angles.cos() * factor, angles.sin() * factor};
}

at::Tensor rotate(const at::Tensor& x, const RotaryAngles& rotation) {
  if (!rotation.cosines.defined()) return x;
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor turned = Rotate::apply(x.to(type), rotation.cosines.to(type), rotation.sines.to(type));
  return turned.to(x.scalar_type());
}

}  // namespace lockstep
