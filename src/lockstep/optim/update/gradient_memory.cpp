#include "lockstep/optim/update/gradient_memory.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <limits>

#include "lockstep/optim/kernels/parallel_over.h"
#include "lockstep/optim/update/tensor_norms.h"

namespace lockstep {
namespace {

// A thread gets at least this much: below it, waking threads costs more than they save.
constexpr std::int64_t kGradientGrain = 32768;

}  // namespace

bool element_type_of(at::ScalarType dtype, ElementType& type) {
  switch (dtype) {
    case at::ScalarType::Float:
      type = ElementType::Float;
      return true;
    case at::ScalarType::Double:
      type = ElementType::Double;
      return true;
    case at::ScalarType::BFloat16:
      type = ElementType::BFloat16;
      return true;
    case at::ScalarType::Half:
      type = ElementType::Half;
      return true;
    default:
      return false;
  }
}

bool same_memory_order(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

bool is_plain_memory(const at::Tensor& tensor) {
  ElementType type;
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg() &&
         element_type_of(tensor.scalar_type(), type) && tensor.is_non_overlapping_and_dense();
}

at::Tensor gradient_elements(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.is_sparse()) return gradient.detach();
  if (!gradient.is_coalesced()) gradient = gradient.detach().coalesce();
  return gradient._values();  // detach() would return a separate sparse tensor: writes would not reach this one
}

GradientMemory::GradientMemory(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const at::Tensor gradient = gradient_elements(parameter);
    Piece piece{nullptr, 0, ElementType::Float};
    if (is_plain_memory(gradient) && element_type_of(gradient.scalar_type(), piece.type)) {
      piece.data = gradient.data_ptr();
      piece.numel = static_cast<std::size_t>(gradient.numel());
      plain_.push_back(piece);
    } else {
      others_.push_back(gradient);
    }
  }
}

GradientSource GradientMemory::source(const Piece& piece, double factor) const {
  GradientSource source;
  source.sources = &piece.data;
  source.type = piece.type;
  source.factor = factor;
  return source;
}

double GradientMemory::plain_sum_of_squares() const {
  struct Block {
    const Piece* piece;
    std::size_t begin;
  };
  std::vector<Block> blocks;
  for (const Piece& piece : plain_) {
    for (std::size_t begin = 0; begin < piece.numel; begin += kSumBlock) blocks.push_back({&piece, begin});
  }
  std::vector<double> sums(blocks.size());
  const auto grain = kGradientGrain / static_cast<std::int64_t>(kSumBlock);
  parallel_over(static_cast<std::int64_t>(blocks.size()), grain, [&](std::int64_t first, std::int64_t last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      const auto [piece, begin] = blocks[i];
      sums[i] = sum_of_squares(source(*piece), begin, std::min(begin + kSumBlock, piece->numel));
    }
  });
  double sum = 0;
  for (const double block : sums) sum += block;
  return sum;
}

double GradientMemory::norm(double p) const {
  if (p == 0) return static_cast<double>(count());
  if (std::isinf(p)) return extreme_norm(p);
  double sum = 0;
  if (p == 2) {
    sum = plain_sum_of_squares();
  } else {
    for (const Piece& piece : plain_) sum += sum_of_powers(source(piece), p, 0, piece.numel);
  }
  for (const double other : norms_of_others(p)) sum += std::pow(other, p);
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

// The largest or the smallest magnitude. NaN stays.
double GradientMemory::extreme_norm(double p) const {
  const bool is_largest = p > 0;
  double extreme = is_largest ? 0 : std::numeric_limits<double>::infinity();
  const auto take = [&](double value) {
    if (std::isnan(value) || (is_largest ? value > extreme : value < extreme)) extreme = value;
  };
  for (const Piece& piece : plain_) {
    take(is_largest ? max_abs(source(piece), 0, piece.numel) : min_abs(source(piece), 0, piece.numel));
  }
  for (const double other : norms_of_others(p)) take(other);
  return extreme;
}

// A tensor without elements adds nothing, which a norm of 0 would to one of a negative order.
std::vector<double> GradientMemory::norms_of_others(double p) const {
  std::vector<at::Tensor> tensors;
  std::copy_if(others_.begin(), others_.end(), std::back_inserter(tensors),
               [](const at::Tensor& tensor) { return tensor.numel() > 0; });
  return norms_of(tensors, p);
}

template <typename Kernel>
bool GradientMemory::all_pieces(double factor, const Kernel& kernel) const {
  std::atomic<bool> all{true};
  for (const Piece& piece : plain_) {
    const GradientSource gradient = source(piece, factor);
    parallel_over(static_cast<std::int64_t>(piece.numel), kGradientGrain, [&](std::int64_t begin, std::int64_t end) {
      if (!kernel(gradient, static_cast<std::size_t>(begin), static_cast<std::size_t>(end))) all = false;
    });
  }
  return all;
}

void GradientMemory::multiply(double factor) const {
  const auto multiply_piece = [](const GradientSource& gradient, std::size_t begin, std::size_t end) {
    return scale_in_place(gradient, begin, end);
  };
  all_pieces(factor, multiply_piece);
  scale_tensors(others_, factor);
}

bool GradientMemory::scale(double factor) const {
  const bool finite = all_pieces(factor, [](const GradientSource& gradient, std::size_t begin, std::size_t end) {
    return scale_in_place(gradient, begin, end);
  });
  scale_tensors(others_, factor);
  return are_finite(others_) && finite;
}

bool GradientMemory::all_finite() const {
  const bool finite = all_pieces(1, [](const GradientSource& gradient, std::size_t begin, std::size_t end) {
    return lockstep::all_finite(gradient, begin, end);
  });
  return finite && are_finite(others_);
}

}  // namespace lockstep
