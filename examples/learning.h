#pragma once

// What an example needs in order to learn: a learning rate that fits its weights, and a hint if the loss has not
// fallen.
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

/// The learning rate of a BERT whose `--lr` was not given. Pretrained weights need small steps, random ones larger
/// steps.
/// @param model  a folder with pretrained weights, or the name of a model with random ones
inline double learning_rate_of(const std::string& model, std::optional<double> given, double of_pretrained) {
  return given.value_or(std::filesystem::is_directory(model) ? of_pretrained : 5e-4);
}

/// Compares the losses at both ends of a training.
class LossHint {
 public:
  void add(double loss) { losses_.push_back(loss); }

  /// Prints a hint if the mean of the last quarter of the losses is not at least 2 % lower than that of the first
  /// quarter. Says nothing about fewer than 20 steps. @param lr  the learning rate that was used
  void print(double lr) const {
    if (losses_.size() < 20) return;
    const std::size_t quarter = losses_.size() / 4;
    const auto mean_from = [&](std::size_t begin) {
      const auto from = losses_.begin() + static_cast<std::ptrdiff_t>(begin);
      return std::accumulate(from, from + static_cast<std::ptrdiff_t>(quarter), 0.0) / static_cast<double>(quarter);
    };
    const double first = mean_from(0), last = mean_from(losses_.size() - quarter);
    if (last < 0.98 * first) return;
    std::fprintf(stderr,
                 "hint: the loss has hardly moved: %.4f in the first quarter, %.4f in the last. Train longer, or try "
                 "another --lr than %g: with Adam, random weights need about 5e-4, pretrained ones 2e-5\n",
                 first, last, lr);
  }

 private:
  std::vector<double> losses_;
};
