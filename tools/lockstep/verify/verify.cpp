// `lockstep verify`: shows on your own model and data that the mean of the shards' gradients is the whole gradient.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/models/registry.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tools/lockstep/subcommand.h"
#include "tools/lockstep/verify/verify_data.h"
#include "tools/lockstep/verify/verify_texts.h"

namespace lockstep {
namespace {

struct TensorRow {
  std::string name;
  std::string shape;
  double gradient = 0;   // largest difference of any element, as relative_difference computes it
  double parameter = 0;  // largest difference after the update
};

double largest_element(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0 ? tensor.abs().max().item<double>() : 0;
}

// Some gradients are zero except for rounding: softmax cancels the bias of attention's keys, and the remainder depends
// on the order of additions. So a tensor counts as at least this share of the model's largest.
constexpr double kSmallestShare = 1e-3;

// Relative to the tensor's largest element, or to `floor` if that is larger.
double relative_difference(const at::Tensor& got, const at::Tensor& want, double floor) {
  if (got.numel() == 0) return 0;
  const double difference = (got - want).abs().max().item<double>();
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : difference / std::max({largest_element(want), floor, 1e-30});
}

Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
  Batch part;
  for (const auto& [name, tensor] : batch) part[name] = tensor.slice(0, begin, end);
  return part;
}

std::int64_t size_of(const Batch& batch) { return batch.begin()->second.size(0); }

class VerifyRanks : public Subcommand {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> names;
    for (const auto& info : registered_models()) names.push_back(info.name);
    names.push_back("mlp-kdd");  // the full name for "mlp"
    app.add_option("--model", model_, "a shipped model")->capture_default_str()->check(CLI::IsMember(names));
    app.add_option(
        "--data", data_,
        "folder of IDX files for image models, a file of NSL-KDD for mlp, a CSV, TSV, JSON Lines or text file "
        "for text models; without it batches are random");
    app.add_option("--tokenizer", texts_of_.tokenizer, "folder of the tokenizer for --data of text models");
    app.add_option("--text", texts_of_.text, "column of the texts in --data")->capture_default_str();
    app.add_option("--label", texts_of_.label, "column of the labels in --data, for models that classify")
        ->capture_default_str();
    app.add_option("--ranks,--nproc-per-node", ranks_, "replicas to compare with one")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    app.add_option("--batch", batch_, "samples of one step over all ranks")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", sequence_length_, "tokens of each text, for text models")->check(CLI::PositiveNumber);
    app.add_option("--steps", steps_, "updates to make")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--dtype", dtype_, "float or double")
        ->capture_default_str()
        ->check(CLI::IsMember({"float", "double"}));
    app.add_option("--engine", engine_, "engine that connects the ranks; default: the fastest there is");
    app.add_option("--seed", seed_, "of weights and batches")->capture_default_str();
    app.add_option("--tolerance", tolerance_,
                   "largest difference that passes, relative to the tensor's largest element, or to a thousandth "
                   "of the model's if that is more")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--json", json_, "print one JSON object");
    show_examples(app, {"lockstep verify --model convnet --ranks 4",
                        "lockstep verify --model mlp --data KDDTrain+.txt --batch 37 --ranks 3",
                        "lockstep verify --model convnet --data mnist/ --dtype double --tolerance 1e-12",
                        "lockstep verify --model bert-tiny --data data/reviews.csv --text review --label stars "
                        "--tokenizer data/reviews-vocab --batch 16"});
  }

  int run() override {
    if (batch_ < ranks_) {
      throw Error(fmt::format("{} samples cannot be cut into {} shards", batch_, ranks_), "--batch and --ranks",
                  "give at least one sample per rank");
    }
    if (std::isnan(tolerance_)) throw UsageError("--tolerance is nan", "command line", "give a number, zero or more");
    open_texts();
    const auto whole = make();
    if (sequence_length_ > 0 && whole->input_kind() != InputKind::Text) {
      throw UsageError("--seq with --model " + model_ + ", which takes no texts", "command line", "leave --seq out");
    }
    std::vector<Batch> batches;
    for (int step = 0; step < steps_; ++step) batches.push_back(make_batch(*whole, step));
    train_whole(*whole, batches);
    std::vector<TensorRow> rows;
    spawn_threads(
        ranks_, [&](const std::shared_ptr<Communicator>& group) { train_rank(group, batches, *whole, rows); },
        SpawnOptions{engine_});
    return report(rows);
  }

 private:
  void open_texts() {
    const bool is_text_model = model_ == "gpt2" || model_.rfind("bert-", 0) == 0;
    if (!texts_of_.tokenizer.empty() && (!is_text_model || data_.empty())) {
      throw UsageError("--tokenizer is for texts, and there are none", "command line",
                       "name a model of texts, and a file with --data");
    }
    if (!is_text_model || data_.empty()) return;
    if (texts_of_.tokenizer.empty()) {
      throw UsageError("the texts of --data need a tokenizer", "command line", "name its folder with --tokenizer");
    }
    texts_ = std::make_unique<VerificationTexts>(model_, data_, texts_of_, sequence_length_);
  }

  std::shared_ptr<Model> make() {
    // The process has one generator for weights, and ranks are threads of it.
    const std::lock_guard<std::mutex> lock(mutex_);
    torch::manual_seed(seed_);
    auto model = make_model(model_, texts_ ? texts_->model_options() : ModelOptions{});
    model->to(dtype_ == "double" ? torch::kDouble : torch::kFloat);
    // Dropout draws random numbers and batch norm mixes the samples of its batch: with them a shard computes another
    // function.
    model->eval();
    return model;
  }

  Batch make_batch(const Model& model, int step) {
    Batch batch;
    if (texts_) {
      batch = texts_->batch(batch_, step);
    } else if (data_.empty()) {
      RandomBatchOptions options;
      options.size = batch_;
      options.sequence_length = sequence_length_;
      options.seed = seed_ + static_cast<std::uint64_t>(step);
      batch = model.random_batch(options);
    } else {
      if (!dataset_) dataset_ = verification_data(model, data_);
      batch = verification_batch(*dataset_, data_, batch_, step);
    }
    for (auto& [name, tensor] : batch) {
      if (tensor.is_floating_point() && dtype_ == "double") tensor = tensor.to(torch::kDouble);
    }
    return batch;
  }

  // One replica with the whole batch: Σloss / Σcount.
  void train_whole(Model& model, const std::vector<Batch>& batches) const {
    torch::optim::SGD optimizer(model.parameters(), kLearningRate);
    for (const Batch& batch : batches) {
      optimizer.zero_grad();
      model.loss(model.forward(batch), batch).mean().backward();
      optimizer.step();
    }
  }

  void train_rank(const std::shared_ptr<Communicator>& group, const std::vector<Batch>& batches, Model& whole,
                  std::vector<TensorRow>& rows) {
    const auto model = make();
    DistributedDataParallelOptions options;
    options.process_group = group;
    DistributedDataParallel ddp(model, options);
    torch::optim::SGD optimizer(model->parameters(), kLearningRate);
    for (const Batch& batch : batches) {
      const std::int64_t size = size_of(batch);
      const Batch shard = slice(batch, size * group->rank() / ranks_, size * (group->rank() + 1) / ranks_);
      optimizer.zero_grad();
      const LossSum loss = model->loss(ddp(shard), shard);
      at::Tensor count = loss.count.clone().view({1});
      group->all_reduce(count);
      // DDP divides by the number of ranks; the formula divides by the count over all ranks.
      (loss.sum * ranks_ / count.item<std::int64_t>()).backward();
      optimizer.step();
    }
    if (group->rank() == 0) rows = compare(*model, whole);
    group->barrier();
  }

  static std::vector<TensorRow> compare(const Model& got, const Model& want) {
    std::vector<TensorRow> rows;
    const auto expected = want.named_parameters();
    double gradient_floor = 0;
    double parameter_floor = 0;
    for (const auto& item : expected) {
      gradient_floor = std::max(gradient_floor, kSmallestShare * largest_element(item.value().grad()));
      parameter_floor = std::max(parameter_floor, kSmallestShare * largest_element(item.value().detach()));
    }
    for (const auto& item : got.named_parameters()) {
      const at::Tensor& other = expected[item.key()];
      TensorRow row;
      row.name = item.key();
      row.shape = fmt::format("[{}]", fmt::join(item.value().sizes().vec(), ", "));
      const at::Tensor no_gradient = torch::zeros_like(other);
      row.gradient = relative_difference(item.value().grad().defined() ? item.value().grad() : no_gradient,
                                         other.grad().defined() ? other.grad() : no_gradient, gradient_floor);
      row.parameter = relative_difference(item.value().detach(), other.detach(), parameter_floor);
      rows.push_back(row);
    }
    return rows;
  }

  int report(const std::vector<TensorRow>& rows) const {
    TensorRow worst;
    for (const TensorRow& row : rows) {
      worst.gradient = std::max(worst.gradient, row.gradient);
      worst.parameter = std::max(worst.parameter, row.parameter);
    }
    const bool equal = worst.gradient <= tolerance_ && worst.parameter <= tolerance_;
    if (json_) {
      nlohmann::ordered_json out{{"model", model_},
                                 {"ranks", ranks_},
                                 {"batch", batch_},
                                 {"steps", steps_},
                                 {"max_gradient_difference", worst.gradient},
                                 {"max_parameter_difference", worst.parameter},
                                 {"tolerance", tolerance_},
                                 {"equal", equal}};
      for (const TensorRow& row : rows) {
        out["tensors"].push_back({{"name", row.name}, {"gradient", row.gradient}, {"parameter", row.parameter}});
      }
      fmt::print("{}\n", out.dump(2));
      return equal ? 0 : 1;
    }
    fmt::print("{}: {} ranks against one, {} {} of {} samples, {}\n", model_, ranks_, steps_,
               steps_ == 1 ? "step" : "steps", batch_, dtype_);
    fmt::print("(in evaluation mode: with dropout or batch statistics a shard is another function than the whole)\n\n");
    std::size_t width = 9;
    for (const TensorRow& row : rows) width = std::max(width, row.name.size());
    fmt::print("{:<{}}  {:<16}  {:>9}  {:>9}\n", "parameter", width, "shape", "gradient", "updated");
    for (const TensorRow& row : rows) {
      fmt::print("{:<{}}  {:<16}  {:>9.1e}  {:>9.1e}\n", row.name, width, row.shape, row.gradient, row.parameter);
    }
    fmt::print("\nlargest relative difference: {:.1e} in gradients, {:.1e} in parameters; tolerance {:.0e}: {}\n",
               worst.gradient, worst.parameter, tolerance_, equal ? "equal" : "NOT EQUAL");
    return equal ? 0 : 1;
  }

  static constexpr double kLearningRate = 0.1;

  std::string model_ = "convnet";
  std::string data_;
  int ranks_ = 2;
  std::int64_t batch_ = 64;
  std::int64_t sequence_length_ = 0;
  int steps_ = 1;
  std::string dtype_ = "float";
  std::string engine_;
  std::uint64_t seed_ = 0;
  double tolerance_ = 1e-5;
  bool json_ = false;
  std::shared_ptr<const Dataset> dataset_;
  VerificationTexts::Columns texts_of_{"", "text", "label"};
  std::unique_ptr<VerificationTexts> texts_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Subcommand> make_verify() { return std::make_unique<VerifyRanks>(); }

}  // namespace lockstep
