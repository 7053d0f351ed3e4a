// `lockstep predict`: the labels of texts that come on standard input, one a line.
#include <ATen/ops/softmax.h>
#include <fmt/format.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/models/registry.h"
#include "tools/lockstep/model_adapter.h"
#include "tools/lockstep/subcommand.h"

namespace lockstep {
namespace {

class Predict : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--model", model_folder_, "folder of a text classifier, as lockstep train saves it")->required();
    app.add_option("--tokenizer", tokenizer_folder_, "folder of its tokenizer; default: the model's");
    app.add_option("--file", file_, "read texts from this file; default: standard input");
    app.add_option("--batch-size", batch_size_, "texts at a time")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--max-length", max_length_, "tokens of the longest text; the rest is cut off")
        ->check(CLI::PositiveNumber);
    app.add_flag("--json", json_, "one JSON object a line, with all scores");
    show_examples(app, {"echo 'The food was cold.' | lockstep predict --model reviews",
                        "lockstep predict --model reviews --file lines.txt --json"});
  }

  int run() override {
    const auto loaded = load_pretrained_model(model_folder_, TextTask::SequenceClassification);
    if (loaded.report.has_new_weights()) {
      throw Error(
          "the model has no weights for all of its parameters, so its answers mean nothing\n" + loaded.report.text(),
          model_folder_, "give the folder of a trained classifier");
    }
    Tokenizer tokenizer = load_tokenizer(tokenizer_folder_.empty() ? model_folder_ : tokenizer_folder_);
    if (!tokenizer.pad_id() && tokenizer.special_tokens().eos) tokenizer.set_pad_token(*tokenizer.special_tokens().eos);
    ModelAdapter model(loaded.model, tokenizer, false);
    model.set_training(false);
    if (file_.empty()) {
      read_lines(std::cin, model, tokenizer);
    } else {
      std::ifstream in(file_);
      if (!in) throw Error("cannot open the file: " + errno_text(errno), "--file " + file_, "name a file of texts");
      read_lines(in, model, tokenizer);
    }
    return 0;
  }

 private:
  void read_lines(std::istream& in, ModelAdapter& model, const Tokenizer& tokenizer) const {
    // Who types waits for an answer to each line.
    const bool is_typed = file_.empty() && ::isatty(STDIN_FILENO) == 1;
    std::vector<std::string> texts;
    for (std::string line; std::getline(in, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      texts.push_back(line);
      if (is_typed || static_cast<std::int64_t>(texts.size()) == batch_size_) answer(texts, model, tokenizer);
    }
    if (!texts.empty()) answer(texts, model, tokenizer);
  }

  void answer(std::vector<std::string>& texts, ModelAdapter& model, const Tokenizer& tokenizer) const {
    const torch::NoGradGuard no_grad;
    EncodeOptions options;
    options.truncation.emplace();
    options.truncation->max_length = longest(tokenizer);
    std::vector<Example> examples;
    for (const std::string& text : texts) examples.push_back(example_of(text, tokenizer, options));
    const at::Tensor scores = at::softmax(model.forward(DataCollatorWithPadding(tokenizer)(examples)), -1);
    const std::vector<std::string> labels = model.labels();
    for (std::size_t i = 0; i < texts.size(); ++i) print_scores(texts[i], scores[static_cast<std::int64_t>(i)], labels);
    std::fflush(stdout);
    texts.clear();
  }

  void print_scores(const std::string& text, const at::Tensor& scores, const std::vector<std::string>& labels) const {
    const auto best = scores.argmax().item<std::int64_t>();
    const std::string& label = labels.at(static_cast<std::size_t>(best));
    if (!json_) {
      fmt::print("{}\t{:.4f}\t{}\n", label, scores[best].item<double>(), text);
      return;
    }
    nlohmann::ordered_json out{{"label", label}, {"score", scores[best].item<double>()}, {"text", text}};
    for (std::size_t i = 0; i < labels.size(); ++i) {
      out["scores"][labels[i]] = scores[static_cast<std::int64_t>(i)].item<double>();
    }
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }

  std::int64_t longest(const Tokenizer& tokenizer) const {
    if (max_length_ > 0) return max_length_;
    return std::min<std::int64_t>(tokenizer.model_max_length().value_or(512), 512);
  }

  static Example example_of(const std::string& text, const Tokenizer& tokenizer, const EncodeOptions& options) {
    const std::size_t tab = text.find('\t');
    const Encoding encoding = tab == std::string::npos
                                  ? tokenizer.encode(text, options)
                                  : tokenizer.encode_pair(text.substr(0, tab), text.substr(tab + 1), options);
    Example example{{"input_ids", tensor_of(encoding.ids)}};
    if (tab != std::string::npos) example["token_type_ids"] = tensor_of(encoding.token_type_ids);
    return example;
  }

  template <typename Number>
  static at::Tensor tensor_of(const std::vector<Number>& numbers) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
    std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<std::int64_t>());
    return tensor;
  }

  std::string model_folder_;
  std::string tokenizer_folder_;
  std::string file_;
  std::int64_t batch_size_ = 32;
  std::int64_t max_length_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_predict() { return std::make_unique<Predict>(); }

}  // namespace lockstep
