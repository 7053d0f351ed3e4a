// `lockstep predict`: applies a saved model to texts, images or rows.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/log.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "lockstep/data/texts/text_encoding.h"
#include "tools/lockstep/predict/prediction.h"
#include "tools/lockstep/subcommand.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kLargestConfigBytes = 16 << 20;

// The task for which a folder's model was trained, from its config.json.
std::string task_of_folder(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!std::filesystem::is_directory(folder)) {
    throw UsageError("there is no folder " + folder, "--model",
                     "give the folder of a model that lockstep train or Hugging Face's library saved");
  }
  if (!std::filesystem::exists(path)) {
    throw UsageError("there is no config.json, so the folder does not say what its model is for", folder,
                     "give the folder of a model that lockstep train or Hugging Face's library saved");
  }
  const auto config = read_json_object(path, kLargestConfigBytes);
  const auto type = config->value("model_type", nlohmann::json());
  if (type == "convnet") return "image-classification";
  if (type == "mlp") return "tabular-classification";
  const auto names = config->value("architectures", nlohmann::json::array());
  if (!names.is_array()) {
    throw Error(fmt::format("\"architectures\" is a {}, not a list", names.type_name()),
                path + ", field \"architectures\"", "give a list with the name of the model's class");
  }
  const std::string name = names.empty() || !names[0].is_string() ? "" : names[0].get<std::string>();
  return name.find("LMHead") != std::string::npos || name.find("MaskedLM") != std::string::npos ? "language-modeling"
                                                                                                : "text-classification";
}

constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";

// Refuses such text, as a training does: a tokenizer would make unknown tokens of it, and the answer would be useless.
void require_text(const std::string& line, const std::string& where) {
  const std::optional<std::size_t> bad = text::find_invalid_utf8(line);
  const std::size_t nul = line.find('\0');
  if (!bad && nul == std::string::npos) return;
  throw Error(
      bad ? fmt::format("byte {} of the line, {:#04x}, is no UTF-8", *bad + 1, static_cast<unsigned char>(line[*bad]))
          : fmt::format("byte {} of the line is NUL", nul + 1),
      where, "store the texts as UTF-8; iconv -f ENCODING -t UTF-8 FILE converts them");
}

std::string passed_over_lines(const std::vector<std::int64_t>& numbers, const std::string& source) {
  constexpr std::size_t kShown = 10;
  const std::size_t shown = std::min(numbers.size(), kShown);
  return fmt::format("{}: passed over {} blank line{}, which have no answer: {}{}", source, numbers.size(),
                     numbers.size() == 1 ? "" : "s",
                     fmt::join(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     numbers.size() > shown ? ", …" : "");
}

class Predict : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--model", flags_.model, "folder of a model, as lockstep train saves it")->required();
    app.add_option("--task", flags_.task, "what it was trained for; default: as the model's config.json says")
        ->check(CLI::IsMember(
            {"text-classification", "language-modeling", "image-classification", "tabular-classification"}));
    app.add_option("--tokenizer", flags_.tokenizer, "folder of its tokenizer; default: the model's");
    app.add_option("--file", flags_.file,
                   "texts, one a line (default: standard input); an IDX file of images or a folder of them; a table");
    app.add_option("--batch-size", flags_.batch_size, "samples at a time")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--max-length", flags_.max_length, "tokens of the longest text; the rest is cut off")
        ->check(CLI::PositiveNumber);
    app.add_option("--max-new-tokens", flags_.max_new_tokens, "GPT-2: tokens to add at most")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--temperature", flags_.temperature, "GPT-2: draw tokens, the flatter the higher; 0: the likeliest")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--top-k", flags_.top_k, "GPT-2: of so many likeliest tokens; 0: of all")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--seed", flags_.seed, "GPT-2: of the drawing")->capture_default_str();
    app.add_flag("--json", flags_.json, "one JSON object a line, with all scores");
    show_examples(app, {"echo 'The food was cold.' | lockstep predict --model reviews",
                        "lockstep predict --model reviews --file lines.txt --json",
                        "echo 'The train' | lockstep predict --model gpt2-folder --max-new-tokens 30 --temperature 0.8",
                        "echo 'The food was [MASK].' | lockstep predict --model bert-folder",
                        "lockstep predict --model digits --file t10k-images-idx3-ubyte",
                        "lockstep predict --model kdd --file KDDTest+.txt"});
  }

  int run() override {
    const torch::NoGradGuard no_grad;
    const std::string task = flags_.task.empty() ? task_of_folder(flags_.model) : flags_.task;
    if (task == "text-classification") predict_labels_of_texts(flags_);
    if (task == "language-modeling") predict_language(flags_);
    if (task == "image-classification") predict_labels_of_images(flags_);
    if (task == "tabular-classification") predict_labels_of_rows(flags_);
    return 0;
  }

 private:
  PredictFlags flags_;
};

}  // namespace

void PredictFlags::read_lines(BlankLines blank_lines,
                              const std::function<void(const std::vector<std::string>&)>& answer) const {
  std::ifstream opened;
  if (!file.empty()) {
    opened.open(file);
    if (!opened) throw Error("cannot open the file: " + errno_text(errno), "--file " + file, "name a file of texts");
    if (std::filesystem::is_directory(file)) throw Error("it is a folder", "--file " + file, "name a file of texts");
  }
  std::istream& in = file.empty() ? std::cin : opened;
  const std::string source = file.empty() ? "standard input" : file;
  // A person who types waits for an answer to each line.
  const bool is_typed = file.empty() && ::isatty(STDIN_FILENO) == 1;
  std::vector<std::string> texts;
  const auto pass_on = [&] {
    answer(texts);
    std::fflush(stdout);
    texts.clear();
  };
  std::int64_t number = 0;
  std::vector<std::int64_t> blank;
  for (std::string line; std::getline(in, line);) {
    if (++number == 1) refuse_wide_text(line, source);
    if (number == 1 && line.rfind(kByteOrderMark, 0) == 0) line.erase(0, std::strlen(kByteOrderMark));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    require_text(line, fmt::format("{}:{}", source, number));
    if (blank_lines == BlankLines::Skip && line.find_first_not_of(" \t\f\v") == std::string::npos) {
      blank.push_back(number);
      continue;
    }
    texts.push_back(line);
    if (is_typed || static_cast<std::int64_t>(texts.size()) == batch_size) pass_on();
  }
  if (!texts.empty()) pass_on();
  if (in.bad()) throw Error("cannot read it to its end: " + errno_text(errno), source, "check the file and its disk");
  if (!blank.empty()) log_warning("{}", passed_over_lines(blank, source));
  if (number == 0) log_warning("{}: there are no texts", source);
}

std::unique_ptr<Subcommand> make_predict() { return std::make_unique<Predict>(); }

}  // namespace lockstep
