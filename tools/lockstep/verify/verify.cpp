// `lockstep verify`: shows on your own model and data that N ranks compute what one process does.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/verify/verify_flags.h"

namespace lockstep {
namespace {

class VerifyRanks : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--model", flags_.model,
                   "a folder that lockstep train, save_model or Hugging Face's library wrote; a TorchScript file; or a "
                   "shipped model by name, such as convnet, bert-tiny or gpt2")
        ->capture_default_str();
    app.add_option(
        "--data", flags_.data,
        "folder of IDX files for image models, a file of NSL-KDD for mlp, a CSV, TSV, JSON Lines or text file "
        "for text models; without it batches are random");
    app.add_option("--tokenizer", flags_.tokenizer,
                   "folder of the tokenizer for --data of text models; default: the model's folder");
    app.add_option("--text", flags_.text, "column of the texts in --data; default: by name, such as text");
    app.add_option("--label", flags_.label, "column of the labels in --data, for models that classify; default: label");
    app.add_option("--input-shape", flags_.input_shape, "TorchScript: shape of one sample, such as 3,32,32")
        ->delimiter(',')
        ->check(CLI::PositiveNumber);
    app.add_option("--ranks,--nproc-per-node", flags_.options.ranks, "number of ranks that are compared with one")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    app.add_option("--batch", flags_.batch, "samples of one step over all ranks")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", flags_.sequence_length, "tokens of each text, for text models")->check(CLI::PositiveNumber);
    app.add_option("--steps", flags_.steps, "number of updates")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--dtype", dtype_, "float or double")
        ->capture_default_str()
        ->check(CLI::IsMember({"float", "double"}));
    app.add_option("--engine", flags_.options.engine, "engine that connects the ranks; default: the fastest available");
    app.add_option("--seed", flags_.seed, "seed of weights and batches")->capture_default_str();
    app.add_option("--tolerance", flags_.options.tolerance,
                   "largest difference that passes, relative to the tensor's largest element, or to a thousandth "
                   "of the model's if that is more")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--json", json_, "print one JSON object");
    show_examples(app, {"lockstep verify --model convnet --ranks 4",
                        "lockstep verify --model reviews --data data/reviews-test.csv --label division",
                        "lockstep verify --model net.pt --input-shape 3,32,32 --dtype double --tolerance 1e-12",
                        "lockstep verify --model mlp --data KDDTrain+.txt --batch 37 --ranks 3",
                        "lockstep verify --model bert-tiny --data data/reviews.csv --text review --label stars "
                        "--tokenizer data/reviews-vocab --batch 16"});
  }

  int run(const CommandStreams& streams) override {
    if (flags_.batch < flags_.options.ranks) {
      throw Error(fmt::format("{} samples cannot be cut into {} shards", flags_.batch, flags_.options.ranks),
                  "--batch and --ranks", "give at least one sample per rank");
    }
    if (std::isnan(flags_.options.tolerance)) {
      throw UsageError("--tolerance is nan", "command line", "give a number, zero or more");
    }
    flags_.is_double = dtype_ == "double";
    const bool is_script = std::filesystem::is_regular_file(flags_.model);
    const Verification result = is_script ? verify_script(flags_) : verify_model(flags_);
    json_ ? print_json(result, streams.out) : print_table(result, streams.out);
    return result.is_equal() ? 0 : 1;
  }

 private:
  void print_json(const Verification& result, std::ostream& to) const {
    nlohmann::ordered_json out{{"model", flags_.model},
                               {"ranks", flags_.options.ranks},
                               {"batch", flags_.batch},
                               {"steps", flags_.steps},
                               {"max_gradient_difference", result.gradient},
                               {"max_parameter_difference", result.parameter},
                               {"tolerance", result.tolerance},
                               {"equal", result.is_equal()}};
    for (const VerifiedTensor& each : result.tensors) {
      out["tensors"].push_back({{"name", each.name}, {"gradient", each.gradient}, {"parameter", each.parameter}});
    }
    fmt::print(to, "{}\n", out.dump(2));
  }

  void print_table(const Verification& result, std::ostream& to) const {
    fmt::print(to, "{}: {} ranks against one, {} {} of {} samples, {}\n", flags_.model, flags_.options.ranks,
               flags_.steps, flags_.steps == 1 ? "step" : "steps", flags_.batch, dtype_);
    fmt::print(
        to, "(in evaluation mode: with dropout or batch statistics a shard is another function than the whole)\n\n{}",
        result.text());
  }

  VerifyFlags flags_;
  std::string dtype_ = "float";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_verify() { return std::make_unique<VerifyRanks>(); }

}  // namespace lockstep
