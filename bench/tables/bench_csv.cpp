// `lockstep bench csv`: splits CSV into fields, compared with std::getline and one plain pass over the same bytes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/images/split_mix.h"
#include "lockstep/data/text_file.h"
#include "tools/frame/scratch_folder.h"

namespace lockstep {
namespace {

/// A contender's counts for a file: all contenders must agree.
struct CsvCounts {
  std::size_t records = 0;
  std::size_t fields = 0;
  std::size_t bytes = 0;  // in all fields
  bool operator!=(const CsvCounts& other) const {
    return records != other.records || fields != other.fields || bytes != other.bytes;
  }
};

struct CsvContender {
  std::string system;
  std::function<CsvCounts(const std::string&)> run;
  bool counts = true;  // splits and counts fields; false for the bound
  std::vector<double> ms = {};
};

// Reviews of 5 to 60 words, a number and a class: "review,stars,division".
std::string make_review_rows(std::size_t bytes, bool quoted) {
  const char* const words[] = {"the",   "place",   "was",    "good",  "service",  "slow", "really",
                               "never", "again",   "coffee", "a",     "friendly", "room", "clean",
                               "price", "battery", "lasted", "broke", "after",    "weeks"};
  SplitMix random(1);
  std::string rows = "review,stars,division\n";
  while (rows.size() < bytes) {
    const bool quotes = quoted && random.between(0, 2) == 0;
    if (quotes) rows += '"';
    for (int i = random.between(5, 60); i > 0; --i) rows.append(words[random.between(0, 19)]) += i == 1 ? "" : " ";
    if (quotes) rows += ", she said \"\"yes\"\",\nand left\"";
    const int stars = random.between(1, 5);
    rows += fmt::format(",{},{}\n", stars, stars > 3 ? "positive" : stars < 3 ? "negative" : "neutral");
  }
  return rows;
}

// The same reviews as JSON Lines, with an escape in every second one, as for line ends and quotes.
std::string make_json_lines(std::size_t bytes) {
  const std::string reviews = make_review_rows(bytes, false);
  std::string lines;
  std::string_view rest = std::string_view(reviews).substr(reviews.find('\n') + 1);
  for (int row = 0; lines.size() < bytes && !rest.empty(); ++row) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const std::size_t division = line.rfind(',') + 1;
    const std::size_t stars = line.rfind(',', division - 2) + 1;
    lines += fmt::format("{{\"review\": \"{}{}\", \"stars\": {}, \"division\": \"{}\"}}\n", line.substr(0, stars - 1),
                         row % 2 == 0 ? "" : "\\nSo \\\"no\\\".", line.substr(stars, division - 1 - stars),
                         line.substr(division));
  }
  return lines;
}

// 41 short fields per record, as in logs and measurements.
std::string make_number_rows(std::size_t bytes) {
  SplitMix random(2);
  std::string rows;
  for (int i = 0; i < 41; ++i) rows += fmt::format("{}column{}", i == 0 ? "" : ",", i);
  rows += '\n';
  while (rows.size() < bytes) {
    for (int i = 0; i < 41; ++i) {
      if (i > 0) rows += ',';
      const int kind = random.between(0, 3);
      rows += kind == 0   ? "0"
              : kind == 1 ? fmt::format("0.{:02}", random.between(0, 99))
                          : fmt::format("{}", random.between(0, 9999));
    }
    rows += '\n';
  }
  return rows;
}

CsvCounts split_with_lockstep(const std::string& path) {
  const FileBytes file = FileBytes::open(path);
  CsvTokenizer tokenizer(file.view(), path);
  CsvCounts counts;
  std::vector<CsvField> fields;
  while (tokenizer.next(fields)) {
    ++counts.records;
    counts.fields += fields.size();
    for (const CsvField& field : fields) counts.bytes += field.text.size();
  }
  return counts;
}

// The usual way: reads a line, then its fields through a stream.
CsvCounts split_with_getline(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CsvCounts counts;
  std::vector<std::string> fields;
  for (std::string line, field; std::getline(in, line);) {
    fields.clear();
    std::istringstream stream(line);
    while (std::getline(stream, field, ',')) fields.push_back(field);
    ++counts.records;
    counts.fields += fields.size();
    for (const std::string& text : fields) counts.bytes += text.size();
  }
  return counts;
}

// Without the second stream, and reusing the fields' memory.
CsvCounts split_with_getline_and_find(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CsvCounts counts;
  std::vector<std::string> fields(64);
  for (std::string line; std::getline(in, line);) {
    std::size_t count = 0;
    for (std::size_t begin = 0; begin <= line.size(); ++count) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      if (count == fields.size()) fields.emplace_back();
      fields[count].assign(line, begin, end - begin);
      begin = end + 1;
    }
    ++counts.records;
    counts.fields += count;
    for (std::size_t i = 0; i < count; ++i) counts.bytes += fields[i].size();
  }
  return counts;
}

// One plain pass: searches all bytes for a value that does not occur.
CsvCounts pass_over(const std::string& path) {
  const FileBytes file = FileBytes::open(path);
  CsvCounts counts;
  counts.bytes = std::min(file.view().find('\0'), file.view().size());
  return counts;
}

// As training does: finds the rows, checks the texts (UTF-8, not empty) and reads the labels.
template <typename Reader>
CsvCounts index_texts(const std::string& path, const Reader& reader) {
  TextFileOptions options;
  options.texts = {"review"};
  options.label = "division";
  return {static_cast<std::size_t>(reader(path, options)->size()), 0, 0};
}

// The usual way for JSON: reads a line and parses it into the library's tree.
CsvCounts parse_with_nlohmann(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CsvCounts counts;
  for (std::string line; std::getline(in, line);) {
    const auto object = nlohmann::json::parse(line);
    counts.records += !object.at("review").get_ref<const std::string&>().empty() && object.contains("division");
  }
  return counts;
}

class BenchCsv : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--megabytes", megabytes_, "size of each file")->capture_default_str()->check(CLI::Range(1, 4096));
    app.add_option("--rounds", rounds_, "turns of each")->capture_default_str()->check(CLI::Range(1, 999));
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench csv", "lockstep bench csv --megabytes 256 --rounds 9"});
  }

  int run() override {
    const std::size_t bytes = std::size_t{1000000} * static_cast<std::size_t>(megabytes_);
    const ScratchFolder folder("lockstep-bench-csv");
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    if (!json_) print_head();
    const CsvContender bound{"bound", pass_over, false};
    const CsvContender ours{"lockstep", split_with_lockstep};
    const CsvContender texts{"lockstep texts", [](const auto& path) { return index_texts(path, read_csv_texts); },
                             false};
    const CsvContender find{"getline+find", split_with_getline_and_find};
    const CsvContender getline{"getline", split_with_getline};
    measure("numbers", folder / "rows.csv", make_number_rows(bytes), {bound, ours, find, getline}, rows);
    measure("reviews", folder / "rows.csv", make_review_rows(bytes, false), {bound, ours, texts, find, getline}, rows);
    measure("quoted reviews", folder / "rows.csv", make_review_rows(bytes, true), {bound, ours, texts}, rows);
    const CsvContender lines{"lockstep texts",
                             [](const auto& path) { return index_texts(path, read_json_lines_texts); }};
    measure("json lines", folder / "rows.jsonl", make_json_lines(bytes),
            {bound, lines, {"nlohmann", parse_with_nlohmann}}, rows);
    if (json_) fmt::print("{}\n", rows.dump(2));
    return 0;
  }

 private:
  // The second contender is Lockstep; the others are compared with it.
  void measure(const std::string& shape, const std::string& path, const std::string& content,
               std::vector<CsvContender> contenders, nlohmann::ordered_json& rows) const {
    write_file_atomically(path, content);
    const CsvCounts want = contenders[1].run(path);
    for (int round = 0; round < rounds_; ++round) {
      for (CsvContender& contender : contenders) {
        const auto start = std::chrono::steady_clock::now();
        const CsvCounts counts = contender.run(path);
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        contender.ms.push_back(took.count());
        if (contender.counts && counts != want) {
          throw Error(fmt::format("{} finds {} fields in {} records, lockstep {} in {}", contender.system,
                                  counts.fields, counts.records, want.fields, want.records),
                      path, "report this: one of the two splits wrongly");
        }
      }
    }
    report(shape, content.size(), contenders, rows);
  }

  void report(const std::string& shape, std::size_t bytes, const std::vector<CsvContender>& contenders,
              nlohmann::ordered_json& rows) const {
    const auto mb_per_s = [&](const CsvContender& c) { return static_cast<double>(bytes) / 1e3 / median(c.ms); };
    const double ours = mb_per_s(contenders[1]);
    for (const CsvContender& contender : contenders) {
      const double speed = mb_per_s(contender);
      rows.push_back({{"shape", shape},
                      {"system", contender.system},
                      {"mb_per_s", speed},
                      {"median_ms", median(contender.ms)},
                      {"lockstep_is_faster_by", ours / speed}});
      if (json_) continue;
      fmt::print("{:<15} {:<15} {:>9.0f} {:>10.2f} {:>13.2f}\n", shape, contender.system, speed, median(contender.ms),
                 ours / speed);
    }
  }

  void print_head() const {
    fmt::print("{} MB a file, in the page cache; {} rounds in turn; {} cores, load {:.2f}\n", megabytes_, rounds_,
               available_cores(), load_average());
    fmt::print("{:<15} {:<15} {:>9} {:>10} {:>13}\n", "file", "system", "MB/s", "median ms", "lockstep is ×");
  }

  int megabytes_ = 64;
  int rounds_ = 5;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_csv() { return std::make_unique<BenchCsv>(); }

}  // namespace lockstep
