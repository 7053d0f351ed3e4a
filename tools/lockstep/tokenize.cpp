// `lockstep tokenize`: shows the ids of texts as a model gets them.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <istream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text_line.h"
#include "lockstep/data/text/tokenizer.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/flags/tokenizer_flag.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

class Tokenize : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--tokenizer", dir_, "folder of a Hugging Face tokenizer, or its tokenizer.json")->required();
    app.add_flag("--pair", pair_, "each line is two texts, separated by a tab");
    app.add_option("--max-length", max_length_,
                   "tokens of a line at most, including special ones; the longer text is cut")
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--no-special-tokens", no_special_tokens_, "add no tokens such as [CLS]");
    app.add_flag("--json", json_, "print one JSON object per line: ids, tokens, offsets and masks");
    show_examples(app, {"echo 'How are you?' | lockstep tokenize --tokenizer bert-base-uncased",
                        "lockstep tokenize --tokenizer gpt2 --no-special-tokens < corpus.txt > ids.txt",
                        "lockstep tokenize --tokenizer bert-base-cased --pair --max-length 128 --json < pairs.tsv"});
  }

  int run(const CommandStreams& streams) override {
    const bool is_file = dir_.size() > 5 && dir_.compare(dir_.size() - 5, 5, ".json") == 0;
    if (!is_file) require_tokenizer_folder(dir_);
    const Tokenizer tokenizer = is_file ? load_tokenizer_json(dir_) : load_tokenizer(dir_);
    EncodeOptions options = tokenizer.default_options();
    options.add_special_tokens = !no_special_tokens_;
    options.offsets = json_;
    if (max_length_ >= 0) {
      if (!options.truncation) options.truncation.emplace();
      options.truncation->max_length = max_length_;
    }
    LineReader lines(streams.in);
    std::string line;
    for (std::int64_t number = 1; lines.next(line); ++number)
      print(tokenizer, encode(tokenizer, options, line, number), streams.out);
    return 0;
  }

 private:
  Encoding encode(const Tokenizer& tokenizer, const EncodeOptions& options, std::string_view line,
                  std::int64_t number) const {
    const std::string where = "standard input, line " + std::to_string(number);
    const std::size_t tab = line.find('\t');
    if (pair_ && (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos)) {
      throw Error("the line is not two texts separated by one tab", where, "leave --pair out, or correct the line");
    }
    try {
      if (!pair_) return tokenizer.encode(line, options);
      return tokenizer.encode_pair(line.substr(0, tab), line.substr(tab + 1), options);
    } catch (const Error& error) {
      throw Error(error.happened(), where + ", " + error.where(), error.fix());
    }
  }

  void print(const Tokenizer& tokenizer, const Encoding& encoding, std::ostream& to) const {
    if (!json_) {
      fmt::print(to, "{}\n", fmt::join(encoding.ids, " "));
      return;
    }
    Json out;
    out["ids"] = encoding.ids;
    out["tokens"] = Json::array();
    for (const TokenId id : encoding.ids) out["tokens"].push_back(tokenizer.id_to_token(id));
    out["offsets"] = Json::array();
    for (const CharSpan& span : encoding.offsets) out["offsets"].push_back(Json::array({span.begin, span.end}));
    out["token_type_ids"] = encoding.token_type_ids;
    out["attention_mask"] = encoding.attention_mask;
    out["special_tokens_mask"] = encoding.special_tokens_mask;
    fmt::print(to, "{}\n", out.dump());
  }

  std::string dir_;
  bool pair_ = false;
  std::int64_t max_length_ = -1;
  bool no_special_tokens_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_tokenize() { return std::make_unique<Tokenize>(); }

}  // namespace lockstep
