// `lockstep bench tokenize`: text to ids on one core, compared with Hugging Face's tokenizers and tiktoken.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/measure/bench_folder.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/text/tokenizer.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Whole lines of text, repeated until they are long enough.
struct BenchText {
  std::string name;
  std::string text;
  std::vector<std::string_view> lines;  // of `text`, without line ends
};

/// One system on one text.
struct TokenizeRow {
  std::string tokenizer;
  std::string text;
  std::string system;
  std::string version;
  std::vector<double> seconds;  // one per round; the first begins with empty caches
  std::string ids;              // as 32-bit numbers
  std::string missing;          // why there is no measurement
};

BenchText read_bench_text(const std::string& path, std::size_t min_bytes) {
  const FileBytes file = FileBytes::open(path);
  std::string once(file.view());
  once.erase(std::remove(once.begin(), once.end(), '\r'), once.end());  // as Python reads it
  if (once.empty()) throw Error("the file is empty", path, "name a text file");
  if (once.back() != '\n') once += '\n';
  BenchText out;
  out.name = fs::path(path).filename().string();
  while (out.text.size() < min_bytes) out.text += once;
  if (out.text.empty()) out.text = once;
  for (std::string_view rest = out.text; !rest.empty();) {
    out.lines.push_back(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(out.lines.back().size() + 1);
  }
  return out;
}

class BenchTokenize : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--tokenizer", tokenizers_, "folder of a tokenizer; may come again")->take_all()->required();
    app.add_option("--file", files_,
                   "text to encode line by line; may come again. Default: reviews.csv and mixed-scripts.txt of --data")
        ->take_all();
    app.add_option(
        "--data", data_,
        "folder of the shipped texts; default: data/ of this installation, or of the sources of this program");
    app.add_option("--megabytes", megabytes_, "a shorter text is repeated up to this length")
        ->capture_default_str()
        ->check(CLI::Range(0.001, 1000.0));
    app.add_option("--rounds", rounds_, "turns of each")->capture_default_str()->check(CLI::Range(2, 99));
    app.add_option("--python", python_, "interpreter with the peers: pip install tokenizers tiktoken")
        ->capture_default_str();
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench tokenize --tokenizer data/reviews-vocab",
                        "lockstep bench tokenize --tokenizer bert-base-uncased --tokenizer gpt2 --file corpus.txt "
                        "--python venv/bin/python"});
  }

  int run() override {
    if (files_.empty()) files_ = {data_ + "/reviews.csv", data_ + "/mixed-scripts.txt"};
    std::vector<BenchText> texts;
    for (const std::string& file : files_) {
      texts.push_back(read_bench_text(file, static_cast<std::size_t>(megabytes_ * 1e6)));
    }
    if (!json_) print_head();
    Json rows = Json::array();
    bool is_equal = true;
    for (const std::string& dir : tokenizers_) {
      for (const BenchText& text : texts) is_equal = measure(dir, text, rows) && is_equal;
    }
    if (json_) fmt::print("{}\n", rows.dump(2));
    return is_equal ? 0 : 1;
  }

 private:
  void print_head() const {
    fmt::print(
        "one thread, line by line, without special tokens, median of {} rounds after the first; {} cores, load "
        "{:.2f}\nfirst: the first round, with empty caches\n\n",
        rounds_ - 1, available_cores(), load_average());
    fmt::print("{:<20} {:<20} {:<24} {:>9} {:>10} {:>9}  {}\n", "tokenizer", "text", "system", "MB/s", "first MB/s",
               "ns/token", "ids");
  }

  // Measures Lockstep, then each peer, on one text. False if ids differ.
  bool measure(const std::string& dir, const BenchText& text, Json& rows) const {
    const ScratchFolder folder("lockstep-bench-tokenize");
    const Tokenizer tokenizer = load_tokenizer(dir);
    tokenizer.save(folder / "tokenizer");  // the peers read this, whatever files the folder has
    write_file_atomically(folder / "lines", text.text);
    std::vector<TokenizeRow> all{ours(dir, text), ours_in_batches(dir, text)};
    all.push_back(peer("tokenizers", folder, text));
    if (fs::exists(folder / "tokenizer/merges.txt")) all.push_back(peer("tiktoken", folder, text));
    bool is_equal = true;
    for (TokenizeRow& row : all) {
      row.tokenizer = fs::path(dir).filename().string();
      is_equal = report(row, all[0], text, rows) && is_equal;
    }
    return is_equal;
  }

  template <typename Encode>
  std::vector<double> time_rounds(const Encode& encode) const {
    std::vector<double> seconds;
    for (int round = 0; round < rounds_; ++round) {
      const auto start = std::chrono::steady_clock::now();
      encode();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return seconds;
  }

  static std::string bytes_of(const std::vector<TokenId>& ids) {
    static_assert(sizeof(TokenId) == 4);
    return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)};
  }

  TokenizeRow ours(const std::string& dir, const BenchText& text) const {
    const Tokenizer tokenizer = load_tokenizer(dir);
    std::vector<TokenId> ids;
    TokenizeRow row;
    row.system = "lockstep";
    row.seconds = time_rounds([&] {
      ids.clear();
      for (const std::string_view line : text.lines) tokenizer.append_ids(line, ids);
    });
    row.ids = bytes_of(ids);
    return row;
  }

  // Makes all inputs of a model, as the peer's objects do.
  TokenizeRow ours_in_batches(const std::string& dir, const BenchText& text) const {
    const Tokenizer tokenizer = load_tokenizer(dir);
    EncodeOptions options;
    options.add_special_tokens = false;
    std::vector<Encoding> encodings;
    TokenizeRow row;
    row.system = "lockstep, encode_batch";
    row.seconds = time_rounds([&] { encodings = tokenizer.encode_batch(text.lines, options, 1); });
    for (const Encoding& encoding : encodings) row.ids += bytes_of(encoding.ids);
    return row;
  }

  TokenizeRow peer(const std::string& system, const ScratchFolder& folder, const BenchText& text) const {
    TokenizeRow row;
    row.system = system;
    std::string command =
        shell_quoted(python_) + " " + shell_quoted(bench_folder() + "/peers/tokenize_peer.py") + " " + system;
    for (const char* name : {"tokenizer", "lines", "ids"}) command += " " + shell_quoted(folder / name);
    const auto [code, out] = run_shell(command + " " + std::to_string(rounds_) + " 2> " + shell_quoted(folder / "err"));
    if (code == 3) {
      row.missing = fmt::format("not installed in {}: pip install {}", python_, system);
    } else if (code == 127) {
      row.missing = fmt::format("{} is not there: name an interpreter by --python", python_);
    } else if (code != 0) {
      throw Error(fmt::format("{} failed on {}: exit code {}\n{}", system, text.name, code, read_file(folder / "err")),
                  python_, "see its message");
    } else {
      const Json answer = Json::parse(out);
      row.version = answer["version"].get<std::string>();
      row.seconds = answer["seconds"].get<std::vector<double>>();
      row.ids = read_file(folder / "ids");
    }
    return row;
  }

  // Prints the row. False if its ids differ from those of `first`.
  bool report(const TokenizeRow& row, const TokenizeRow& first, const BenchText& text, Json& rows) const {
    Json out{{"tokenizer", row.tokenizer}, {"text", text.name}, {"system", row.system}, {"bytes", text.text.size()}};
    const std::string system = row.version.empty() ? row.system : row.system + " " + row.version;
    if (!row.missing.empty()) {
      out["missing"] = row.missing;
      rows.push_back(out);
      if (!json_) fmt::print("{:<20} {:<20} {:<24} {}\n", row.tokenizer, text.name, system, row.missing);
      return true;
    }
    const double middle = median({row.seconds.begin() + 1, row.seconds.end()});
    const auto bytes = static_cast<double>(text.text.size());
    const std::size_t tokens = row.ids.size() / sizeof(TokenId);
    const bool is_equal = row.ids == first.ids;
    out.update({{"version", row.version},
                {"mb_per_s", bytes / middle / 1e6},
                {"first_mb_per_s", bytes / row.seconds[0] / 1e6},
                {"tokens", tokens},
                {"ids_equal", is_equal}});
    rows.push_back(out);
    if (!json_) {
      fmt::print("{:<20} {:<20} {:<24} {:>9.1f} {:>10.1f} {:>9.1f}  {}\n", row.tokenizer, text.name, system,
                 bytes / middle / 1e6, bytes / row.seconds[0] / 1e6, 1e9 * middle / static_cast<double>(tokens),
                 &row == &first ? fmt::format("{}", tokens)
                 : is_equal     ? "equal"
                                : differs(row.ids, first.ids));
    }
    return is_equal;
  }

  static std::string differs(const std::string& ids, const std::string& ours) {
    const auto [at, end] = std::mismatch(ids.begin(), ids.end(), ours.begin(), ours.end());
    return fmt::format("DIFFER from token {} of {}", (at - ids.begin()) / 4, ids.size() / 4);
  }

  std::vector<std::string> tokenizers_;
  std::vector<std::string> files_;
  std::string data_ = fs::path(bench_folder()).parent_path() / "data";
  double megabytes_ = 8;
  int rounds_ = 6;
  std::string python_ = "python3";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_tokenize() { return std::make_unique<BenchTokenize>(); }

}  // namespace lockstep
