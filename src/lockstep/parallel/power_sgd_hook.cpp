#include "lockstep/parallel/power_sgd_hook.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Makes the columns of `matrix` orthonormal, one after the other (Gram and Schmidt).
void orthogonalize(at::Tensor& matrix, double epsilon) {
  for (std::int64_t i = 0; i < matrix.size(1); ++i) {
    at::Tensor column = matrix.select(1, i);
    column.div_(column.norm() + epsilon);
    if (epsilon == 0 && !at::isfinite(column).all().item<bool>()) column.zero_();  // of a gradient that is zero
    if (i + 1 == matrix.size(1)) return;
    at::Tensor rest = matrix.narrow(1, i + 1, matrix.size(1) - i - 1);
    rest.sub_(column.unsqueeze(1).mul(column.unsqueeze(1).mul(rest).sum(0, true)));
  }
}

class PowerSGDHook : public CommunicationHook {
 public:
  explicit PowerSGDHook(const PowerSGDOptions& options) : options_(options) {}

  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    State& state = states_[bucket.index];
    if (state.step++ < options_.start_powerSGD_iter) {
      state.compressed = false;
      return communicator.all_reduce_async(bucket.buffer, ReduceOp::Avg);
    }
    prepare(state, bucket);
    at::Tensor input = bucket.buffer.to(at::kFloat);
    if (options_.use_error_feedback) input = input + state.error;
    state.input = input;
    // The thin matrices and what is not compressed travel together.
    for (Matrix& matrix : state.matrices) at::mm_out(matrix.p, view_of(input, matrix), matrix.q);
    for (const Piece& piece : state.rest) piece.sent.copy_(input.narrow(0, piece.offset, piece.sent.numel()));
    return communicator.all_reduce_async(state.first_message, ReduceOp::Avg);
  }

  std::shared_ptr<Work> start_second(GradBucket& bucket, Communicator& communicator) override {
    State& state = states_.at(bucket.index);
    if (!state.compressed || state.matrices.empty()) return nullptr;
    for (Matrix& matrix : state.matrices) {
      orthogonalize(matrix.p, options_.orthogonalization_epsilon);
      at::mm_out(matrix.q, view_of(state.input, matrix).t(), matrix.p);
    }
    return communicator.all_reduce_async(state.second_message, ReduceOp::Avg);
  }

  void finish(GradBucket& bucket, Communicator&) override {
    State& state = states_.at(bucket.index);
    if (!state.compressed) return;
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
    if (!options_.warm_start) {
      for (Matrix& matrix : state.matrices) fill_randomly(matrix.q);
    }
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
    place_in_messages(state);
    state.error = at::zeros({numel}, floats);
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

  // From a generator of the hook's own: the same numbers on every rank, and the program's are left alone.
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
