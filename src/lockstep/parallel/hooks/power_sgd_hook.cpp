#include "lockstep/parallel/power_sgd_hook.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/parallel/hooks/same_settings.h"

namespace lockstep {
namespace {

// Makes the columns of `matrix` orthonormal, one after the other (Gram and Schmidt).
void orthogonalize(at::Tensor& matrix, double epsilon) {
  for (std::int64_t i = 0; i < matrix.size(1); ++i) {
    at::Tensor column = matrix.select(1, i);
    column.div_(column.norm() + epsilon);
    if (epsilon == 0 && !at::isfinite(column).all().item<bool>()) column.zero_();  // the gradient is zero
    if (i + 1 == matrix.size(1)) return;
    at::Tensor rest = matrix.narrow(1, i + 1, matrix.size(1) - i - 1);
    rest.sub_(column.unsqueeze(1).mul(column.unsqueeze(1).mul(rest).sum(0, true)));
  }
}

class PowerSGDHook : public CommunicationHook {
 public:
  explicit PowerSGDHook(const PowerSGDOptions& options) : options_(options) {}

  // Ranks that draw other numbers, or compress to another rank, would make gradients of nothing.
  void attach(Communicator& communicator) override {
    require_same_settings(communicator, "power_sgd_hook",
                          {fmt::format("matrix_approximation_rank {}", options_.matrix_approximation_rank),
                           fmt::format("start_powerSGD_iter {}", options_.start_powerSGD_iter),
                           fmt::format("min_compression_rate {}", options_.min_compression_rate),
                           fmt::format("use_error_feedback {}", options_.use_error_feedback),
                           fmt::format("warm_start {}", options_.warm_start),
                           fmt::format("orthogonalization_epsilon {}", options_.orthogonalization_epsilon),
                           fmt::format("random_seed {}", options_.random_seed)});
  }

  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    State& state = state_of(bucket);
    const bool forgets = guard_.begins_after_void_step(bucket);
    if (forgets && state.error.defined()) state.error.zero_();
    if (state.step++ < options_.start_powerSGD_iter) {
      state.compressed = false;
      return communicator.all_reduce_async(bucket.buffer, ReduceOp::Avg);
    }
    prepare(state, bucket);
    at::Tensor input = bucket.buffer.to(at::kFloat);
    if (options_.use_error_feedback) input = input + state.error;
    state.input = input;
    // The thin matrices and the uncompressed gradients are sent together.
    for (Matrix& matrix : state.matrices) at::mm_out(matrix.p, view_of(input, matrix), matrix.q);
    for (const Piece& piece : state.rest) piece.sent.copy_(input.narrow(0, piece.offset, piece.sent.numel()));
    return communicator.all_reduce_async(state.first_message, ReduceOp::Avg);
  }

  std::shared_ptr<Work> start_second(GradBucket& bucket, Communicator& communicator) override {
    State& state = states_.at(bucket.index);
    if (!state.compressed || state.matrices.empty()) return nullptr;
    state.is_void = !at::isfinite(state.first_message).all().item<bool>();
    if (state.is_void) return nullptr;  // on every rank, because all have received the same
    for (Matrix& matrix : state.matrices) {
      orthogonalize(matrix.p, options_.orthogonalization_epsilon);
      at::mm_out(matrix.q, view_of(state.input, matrix).t(), matrix.p);
    }
    return communicator.all_reduce_async(state.second_message, ReduceOp::Avg);
  }

  void finish(GradBucket& bucket, Communicator&) override {
    State& state = states_.at(bucket.index);
    if (!state.compressed) return;
    if (state.is_void || !at::isfinite(state.second_message).all().item<bool>()) return give_up(state, bucket);
    at::Tensor output = at::empty_like(state.input);
    for (const Piece& piece : state.rest) output.narrow(0, piece.offset, piece.sent.numel()).copy_(piece.sent);
    for (Matrix& matrix : state.matrices) {
      at::Tensor product = view_of(output, matrix);
      at::mm_out(product, matrix.p, matrix.q.t());
    }
    if (options_.use_error_feedback) {
      state.error = state.input.sub_(output);
      for (const Piece& piece : state.rest) state.error.narrow(0, piece.offset, piece.sent.numel()).zero_();
    }
    bucket.buffer.copy_(output);
    // fp16 has a smaller range than the received numbers.
    const bool is_narrow = bucket.buffer.scalar_type() != at::kFloat;
    if (is_narrow && !at::isfinite(bucket.buffer).all().item<bool>()) guard_.set_void(bucket);
    if (!options_.warm_start) {
      for (Matrix& matrix : state.matrices) fill_randomly(matrix.q);
    }
  }

  HookState state() const override {
    HookState state;
    for (const auto& [index, kept] : states_) {
      state.emplace_back(key_of(index, "step"), at::full({1}, kept.step, at::kLong));
      if (!kept.error.defined()) continue;
      state.emplace_back(key_of(index, "error"), guard_.is_void() ? at::zeros_like(kept.error) : kept.error.clone());
      state.emplace_back(key_of(index, "q"), kept.second_message.clone());
    }
    if (!state.empty()) state.emplace_back("generator", bytes_of(generator_));
    return state;
  }
  void load_state(const HookState& state) override {
    states_.clear();
    guard_ = {};
    loaded_ = state;
    const at::Tensor generator = take_out(loaded_, "generator");
    if (!generator.defined()) return;
    const at::Tensor bytes = generator.contiguous();
    std::istringstream(std::string(static_cast<const char*>(bytes.data_ptr()), bytes.nbytes())) >> generator_;
  }

 private:
  struct Matrix {
    std::int64_t offset = 0, rows = 0, columns = 0;  // in the bucket
    at::Tensor p, q;                                 // [rows, rank] and [columns, rank], views into the messages
  };
  struct Piece {
    std::int64_t offset = 0;
    at::Tensor sent;  // a view into the first message
  };
  struct State {
    std::int64_t step = 0;
    bool compressed = false;  // in this step
    bool is_void = false;     // the first message of this step holds an infinity or NaN
    std::vector<Matrix> matrices;
    std::vector<Piece> rest;
    at::Tensor first_message, second_message;
    at::Tensor error, input;  // as the bucket
  };

  static at::Tensor view_of(const at::Tensor& flat, const Matrix& matrix) {
    return flat.narrow(0, matrix.offset, matrix.rows * matrix.columns).view({matrix.rows, matrix.columns});
  }

  bool pays(std::int64_t rows, std::int64_t columns) const {
    const auto thin = static_cast<double>((rows + columns) * rank_of(rows, columns));
    return thin * options_.min_compression_rate < static_cast<double>(rows) * static_cast<double>(columns);
  }
  std::int64_t rank_of(std::int64_t rows, std::int64_t columns) const {
    return std::min(options_.matrix_approximation_rank, std::min(rows, columns));
  }

  static std::string key_of(std::size_t bucket, const char* name) { return fmt::format("{}.{}", bucket, name); }

  static at::Tensor bytes_of(const std::mt19937_64& generator) {
    std::ostringstream text;
    text << generator;
    const std::string content = text.str();
    at::Tensor bytes = at::empty({static_cast<std::int64_t>(content.size())}, at::kByte);
    std::copy(content.begin(), content.end(), bytes.data_ptr<std::uint8_t>());
    return bytes;
  }

  State& state_of(const GradBucket& bucket) {
    const auto [entry, is_new] = states_.try_emplace(bucket.index);
    const at::Tensor step = is_new ? take_out(loaded_, key_of(bucket.index, "step")) : at::Tensor();
    if (step.defined()) entry->second.step = step.item<std::int64_t>();
    return entry->second;
  }

  // @return  false if the state was saved before the bucket was compressed
  bool take_loaded(at::Tensor& target, std::size_t bucket, const char* name) {
    const at::Tensor saved = take_out(loaded_, key_of(bucket, name));
    if (!saved.defined()) return false;
    if (saved.numel() != target.numel()) {
      refuse_hook_state("powersgd", fmt::format("{} has {} numbers here but {} in the state", key_of(bucket, name),
                                                target.numel(), saved.numel()));
    }
    target.copy_(saved);
    return true;
  }

  // A gradient that is infinite or NaN is not hidden, and leaves no residual.
  void give_up(State& state, GradBucket& bucket) {
    if (!state.is_void) {
      for (Matrix& matrix : state.matrices) fill_randomly(matrix.q);
    }
    state.is_void = false;
    bucket.buffer.fill_(std::numeric_limits<double>::quiet_NaN());
    guard_.set_void(bucket);
  }

  void prepare(State& state, const GradBucket& bucket) {
    if (std::exchange(state.compressed, true) || state.error.defined()) return;
    const auto* begin = static_cast<const char*>(bucket.buffer.data_ptr());
    const auto numel = bucket.buffer.numel();
    const auto floats = bucket.buffer.options().dtype(at::kFloat);
    std::int64_t first_numel = 0, second_numel = 0, covered = 0;
    const auto add_rest = [&](std::int64_t from, std::int64_t to) {
      if (from == to) return;
      state.rest.push_back({from, at::empty({to - from}, floats)});
      first_numel += to - from;
    };
    for (const at::Tensor& gradient : bucket.gradients) {
      if (gradient.dim() < 2 || gradient.numel() == 0) continue;
      Matrix matrix;
      matrix.rows = gradient.size(0);
      matrix.columns = gradient.numel() / matrix.rows;
      if (!pays(matrix.rows, matrix.columns)) continue;
      matrix.offset =
          (static_cast<const char*>(gradient.data_ptr()) - begin) / static_cast<std::int64_t>(gradient.element_size());
      add_rest(covered, matrix.offset);
      covered = matrix.offset + matrix.rows * matrix.columns;
      const std::int64_t rank = rank_of(matrix.rows, matrix.columns);
      first_numel += matrix.rows * rank;
      second_numel += matrix.columns * rank;
      state.matrices.push_back(std::move(matrix));
    }
    add_rest(covered, numel);
    state.first_message = at::empty({first_numel}, floats);
    state.second_message = at::empty({second_numel}, floats);
    const std::mt19937_64 before = generator_;
    place_in_messages(state);
    state.error = at::zeros({numel}, floats);
    take_loaded(state.error, bucket.index, "error");
    if (take_loaded(state.second_message, bucket.index, "q")) generator_ = before;  // it has drawn for it already
  }

  void place_in_messages(State& state) {
    std::int64_t first = 0, second = 0;
    for (Piece& piece : state.rest) {
      piece.sent = state.first_message.narrow(0, std::exchange(first, first + piece.sent.numel()), piece.sent.numel());
    }
    for (Matrix& matrix : state.matrices) {
      const std::int64_t rank = rank_of(matrix.rows, matrix.columns);
      matrix.p = state.first_message.narrow(0, first, matrix.rows * rank).view({matrix.rows, rank});
      matrix.q = state.second_message.narrow(0, second, matrix.columns * rank).view({matrix.columns, rank});
      first += matrix.rows * rank;
      second += matrix.columns * rank;
      fill_randomly(matrix.q);
    }
  }

  // Draws from the hook's own generator: the numbers are equal on all ranks, and the program's generator is not used.
  void fill_randomly(at::Tensor& matrix) {
    std::normal_distribution<float> normal;
    at::Tensor numbers = at::empty(matrix.sizes(), at::kFloat);
    for (float *it = numbers.data_ptr<float>(), *end = it + numbers.numel(); it != end; ++it) *it = normal(generator_);
    matrix.copy_(numbers);
    orthogonalize(matrix, options_.orthogonalization_epsilon);
  }

  const PowerSGDOptions options_;
  std::mt19937_64 generator_{options_.random_seed};
  std::map<std::size_t, State> states_;  // by bucket
  ResidualGuard guard_;
  HookState loaded_;  // for buckets that were not used yet
};

}  // namespace

std::unique_ptr<CommunicationHook> power_sgd_hook(const PowerSGDOptions& options) {
  const auto require = [](bool holds, const std::string& what, const std::string& fix) {
    if (!holds) throw Error(what, "power_sgd_hook", fix);
  };
  require(options.matrix_approximation_rank >= 1,
          fmt::format("matrix_approximation_rank is {}", options.matrix_approximation_rank), "set it to 1 or more");
  require(options.start_powerSGD_iter >= 0, fmt::format("start_powerSGD_iter is {}", options.start_powerSGD_iter),
          "set it to 0 or more");
  require(options.min_compression_rate > 0, fmt::format("min_compression_rate is {}", options.min_compression_rate),
          "set it above 0");
  require(options.orthogonalization_epsilon >= 0,
          fmt::format("orthogonalization_epsilon is {}", options.orthogonalization_epsilon), "set it to 0 or more");
  return std::make_unique<PowerSGDHook>(options);
}

}  // namespace lockstep
