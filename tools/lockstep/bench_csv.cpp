// `lockstep bench csv`: splitting CSV into fields, beside std::getline and one plain pass over the same bytes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/topology.h"
#include "lockstep/data/csv_tokenizer.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/split_mix.h"
#include "lockstep/data/text_file.h"
#include "tools/lockstep/measurement.h"
#include "tools/lockstep/subcommand.h"

namespace lockstep {
namespace {

/// What a contender saw of a file: all must agree.
struct CsvCounts {
  std::size_t records = 0;
  std::size_t fields = 0;
  std::size_t bytes = 0;  // of all fields
  bool operator!=(const CsvCounts& other) const {
    return records != other.records || fields != other.fields || bytes != other.bytes;
  }
};

struct CsvContender {
  std::string system;
  std::function<CsvCounts(const std::string&)> run;
  bool counts = true;  // splits fields and counts them; not the bound
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

// 41 short fields a record, as logs and measurements have.
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

// The usual way: a line, and a stream over it for the fields.
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

// The same without the second stream, and with the fields' memory used again.
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

// One plain pass: looks at every byte for one that is not there.
CsvCounts pass_over(const std::string& path) {
  const FileBytes file = FileBytes::open(path);
  CsvCounts counts;
  counts.bytes = std::min(file.view().find('\0'), file.view().size());
  return counts;
}

class BenchCsv : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--megabytes", megabytes_, "size of each file")->capture_default_str()->check(CLI::Range(1, 4096));
    app.add_option("--rounds", rounds_, "turns of each")->capture_default_str()->check(CLI::Range(1, 999));
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench csv", "lockstep bench csv --megabytes 256 --rounds 9"});
  }

  int run() override {
    const std::size_t bytes = std::size_t{1000000} * static_cast<std::size_t>(megabytes_);
    std::string folder = (std::filesystem::temp_directory_path() / "lockstep-bench-csv-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr)
      throw Error("cannot make a folder", folder, "set TMPDIR to one with space");
    const struct Removed {
      std::string path;
      ~Removed() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
      }
    } removed{folder};
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    if (!json_) print_head();
    measure("numbers", folder, make_number_rows(bytes), true, rows);
    measure("reviews", folder, make_review_rows(bytes, false), true, rows);
    measure("quoted reviews", folder, make_review_rows(bytes, true), false, rows);
    if (json_) fmt::print("{}\n", rows.dump(2));
    return 0;
  }

 private:
  // `plain`: no quotes, so std::getline can split it too.
  void measure(const std::string& shape, const std::string& folder, const std::string& content, bool plain,
               nlohmann::ordered_json& rows) const {
    const std::string path = folder + "/rows.csv";
    write_file_atomically(path, content);
    std::vector<CsvContender> contenders{{"bound", pass_over, false}, {"lockstep", split_with_lockstep}};
    if (shape != "numbers") contenders.push_back({"lockstep texts", index_texts, false});
    if (plain) {
      contenders.push_back({"getline+find", split_with_getline_and_find});
      contenders.push_back({"getline", split_with_getline});
    }
    const CsvCounts want = split_with_lockstep(path);
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

  // What training does: finds the rows, checks the texts (UTF-8, not empty) and reads the labels.
  static CsvCounts index_texts(const std::string& path) {
    TextFileOptions options;
    options.texts = {"review"};
    options.label = "division";
    return {static_cast<std::size_t>(read_csv_texts(path, options)->size()), 0, 0};
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

std::unique_ptr<Subcommand> make_bench_csv() { return std::make_unique<BenchCsv>(); }

}  // namespace lockstep
