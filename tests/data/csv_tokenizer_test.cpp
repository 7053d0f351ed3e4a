#include "lockstep/data/csv/csv_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "lockstep/data/csv/csv_scan_kernel.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using Record = std::vector<std::string>;
using Records = std::vector<Record>;

Records split(std::string_view text, CsvDialect dialect = {}) {
  CsvTokenizer tokenizer(text, "file.csv", dialect);
  Records records;
  std::vector<CsvField> fields;
  std::string storage;
  while (tokenizer.next(fields)) {
    Record& record = records.emplace_back();
    for (const CsvField& field : fields) record.emplace_back(field.value(storage));
  }
  return records;
}

struct CsvCase {
  const char* name;
  std::string text;
  Records want;
  CsvDialect dialect = {};
  friend std::ostream& operator<<(std::ostream& out, const CsvCase& c) { return out << c.name; }
};
class CsvTokenizerTable : public ::testing::TestWithParam<CsvCase> {};

TEST_P(CsvTokenizerTable, Splits) { EXPECT_EQ(split(GetParam().text, GetParam().dialect), GetParam().want); }

INSTANTIATE_TEST_SUITE_P(
    Table, CsvTokenizerTable,
    ::testing::Values(
        CsvCase{"nothing", "", {}}, CsvCase{"one_field", "a", {{"a"}}},
        CsvCase{"two_records", "a,b\nc,d\n", {{"a", "b"}, {"c", "d"}}},
        CsvCase{"no_last_line_end", "a,b\nc,d", {{"a", "b"}, {"c", "d"}}},
        CsvCase{"crlf", "a,b\r\nc,d\r\n", {{"a", "b"}, {"c", "d"}}},
        CsvCase{"cr", "a,b\rc,d\r", {{"a", "b"}, {"c", "d"}}},
        CsvCase{"empty_fields", ",a,,\n,\n", {{"", "a", "", ""}, {"", ""}}},
        CsvCase{"delimiter_at_the_end", "a,", {{"a", ""}}},
        CsvCase{"empty_lines", "\n\na\n\r\n\r\rb\n\n", {{"a"}, {"b"}}},
        CsvCase{"spaces_belong_to_fields", " a , b\n", {{" a ", " b"}}},
        CsvCase{"quoted", "\"a\",\"b,c\"\n\"d\ne\",f\n", {{"a", "b,c"}, {"d\ne", "f"}}},
        CsvCase{"quoted_empty", "\"\"\n\"\",\"\"", {{""}, {"", ""}}},
        CsvCase{"doubled_quotes", "\"say \"\"a\"\"\",\"\"\"\",b\n", {{"say \"a\"", "\"", "b"}}},
        CsvCase{"quoted_line_ends", "\"a\r\nb\",\"\r\",\"\n\"\r\nc,d,e", {{"a\r\nb", "\r", "\n"}, {"c", "d", "e"}}},
        CsvCase{"quote_inside", "5\" disk,a\"b\"\n", {{"5\" disk", "a\"b\""}}},
        CsvCase{"byte_order_mark",
                "\xef\xbb\xbf"
                "a,b\n",
                {{"a", "b"}}},
        CsvCase{"utf8", "é,中文\n", {{"é", "中文"}}},
        CsvCase{"nul", std::string("a\0,b", 4), {{std::string("a\0", 2), "b"}}},
        CsvCase{"tabs", "a\tb,c\t\"d\te\"\n", {{"a", "b,c", "d\te"}}, {'\t', '"'}},
        CsvCase{"no_quotes", "\"a\t\"b\"\n\"\n", {{"\"a", "\"b\""}, {"\""}}, {'\t', '\0'}},
        CsvCase{"other_quote", "'a;b';\"c\"\n", {{"a;b", "\"c\""}}, {';', '\''}}),
    [](const auto& test) { return test.param.name; });

// The same result character by character: slow, and obviously correct.
Records split_slowly(std::string_view text) {
  Records records;
  Record record;
  std::string field;
  bool quoted = false;
  bool any = false;  // part of this line was read
  const auto end_field = [&] {
    record.push_back(field);
    field.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"' && field.empty() && (i == 0 || text[i - 1] != '"')) {
      quoted = any = true;
    } else if (c == ',') {
      end_field();
      any = true;
    } else if (c == '\n') {
      if (any) {
        end_field();
        records.push_back(record);
      }
      record.clear();
      any = false;
    } else {
      field += c;
      any = true;
    }
  }
  return records;
}

TEST(CsvTokenizer, AgreesWithASlowReaderOnRandomTables) {
  std::mt19937 random(7);
  const std::vector<std::string> pieces{
      "", "a", "1.5", "long text that fills more than one block of sixty-four bytes, yes", "\"", ",", "\n", "é"};
  for (int round = 0; round < 300; ++round) {
    Records table(random() % 6);
    std::string text;
    for (Record& record : table) {
      record.resize(1 + random() % 7);
      for (std::string& field : record) {
        for (unsigned i = random() % 4; i > 0; --i) field += pieces[random() % pieces.size()];
        const bool needs_quotes = field.find_first_of("\",\n") != std::string::npos || record.size() == 1;
        std::string doubled;
        for (const char c : field) doubled += c == '"' ? "\"\"" : std::string(1, c);
        text += needs_quotes || random() % 4 == 0 ? "\"" + doubled + "\"" : field;
        text += &field == &record.back() ? "\n" : ",";
      }
    }
    ASSERT_EQ(split(text), table) << text;
    ASSERT_EQ(split_slowly(text), table) << text;
  }
}

TEST(CsvTokenizer, AnyPositionInABlockIsFound) {
  for (std::size_t length = 0; length < 200; ++length) {
    const std::string field(length, 'x');
    EXPECT_EQ(split(field + "," + field + "\n" + field + ",y"), (Records{{field, field}, {field, "y"}})) << length;
  }
}

TEST(CsvTokenizer, LongTextsAreSplitAsShortOnes) {
  // Longer than the tokenizer looks ahead, with records of every length, and quotes at any place in a block.
  std::mt19937 random(3);
  Records table(2000);
  std::string text;
  for (Record& record : table) {
    record.resize(2 + random() % 90);
    for (std::string& field : record) {
      field.assign(random() % 9, 'x');
      text += random() % 20 == 0 ? "\"" + field + "\"" : field;
      text += &field == &record.back() ? (random() % 2 == 0 ? "\r\n" : "\n") : ",";
    }
  }
  EXPECT_EQ(split(text), table);
}

TEST(CsvScan, EveryKernelFindsTheSame) {
  std::mt19937 random(5);
  const std::string alphabet(",\"\n\r;ab\0", 8);
  std::string bytes(64 * 20 + 1, ' ');
  for (int round = 0; round < 50; ++round) {
    for (char& c : bytes) c = alphabet[random() % alphabet.size()];
    for (const CsvMarks& marks : {CsvMarks{',', '"', true}, CsvMarks{';', 'a', true}, CsvMarks{',', '\0', false}}) {
      std::vector<CsvBlock> want(20);
      for (std::size_t i = 0; i < 64 * want.size(); ++i) {
        const bool line_end = bytes[i] == '\n' || bytes[i] == '\r';
        const bool delimiter = bytes[i] == marks.delimiter;
        const std::uint64_t bit = std::uint64_t{1} << (i % 64);
        if (line_end || delimiter) want[i / 64].ends |= bit;
        if (line_end || (delimiter && marks.has_quote && bytes[i + 1] == marks.quote)) want[i / 64].stops |= bit;
      }
      for (const ScanKernel& kernel : scan_kernels()) {
        std::vector<CsvBlock> got(want.size());
        kernel.scan(bytes.data(), got.size(), marks, got.data());
        for (std::size_t b = 0; b < want.size(); ++b) {
          ASSERT_EQ(got[b].ends, want[b].ends) << kernel.name;
          ASSERT_EQ(got[b].stops, want[b].stops) << kernel.name;
        }
      }
    }
  }
}

TEST(CsvTokenizer, FieldsAreViewsIntoTheText) {
  const std::string text = "ab,\"cd\"\n";
  CsvTokenizer tokenizer(text, "file.csv");
  std::vector<CsvField> fields;
  ASSERT_TRUE(tokenizer.next(fields));
  EXPECT_EQ(fields[0].text.data(), text.data());
  EXPECT_EQ(fields[1].text.data(), text.data() + 4);
  std::string storage;
  EXPECT_EQ(fields[1].value(storage).data(), text.data() + 4);
}

TEST(CsvTokenizer, SaysWhereAFieldStands) {
  const std::string text = "a,b\r\n\r\n\"c\nd\r\ne\",f\n\"g\",h";
  CsvTokenizer tokenizer(text, "file.csv");
  std::vector<CsvField> fields;
  ASSERT_TRUE(tokenizer.next(fields));
  EXPECT_EQ(tokenizer.where(fields[1]), "file.csv:1:3");
  ASSERT_TRUE(tokenizer.next(fields));
  EXPECT_EQ(tokenizer.where(fields[0]), "file.csv:3:1");
  EXPECT_EQ(tokenizer.where(fields[1]), "file.csv:5:4");
  ASSERT_TRUE(tokenizer.next(fields));
  EXPECT_EQ(tokenizer.where(fields[0]), "file.csv:6:1");
  EXPECT_EQ(tokenizer.where(fields[1]), "file.csv:6:5");
  EXPECT_FALSE(tokenizer.next(fields));
}

TEST(CsvTokenizer, GoesOnAtAnOffsetItGave) {
  const std::string text = "a,b\n\"c\n\",d\ne,f\n";
  CsvTokenizer tokenizer(text, "file.csv");
  std::vector<CsvField> fields;
  tokenizer.next(fields);
  tokenizer.next(fields);
  const std::size_t offset = tokenizer.offset();
  const std::int64_t line = tokenizer.line();
  CsvTokenizer later(text, "file.csv");
  later.seek(offset, line);
  ASSERT_TRUE(later.next(fields));
  EXPECT_EQ(fields[0].text, "e");
  EXPECT_EQ(later.where(fields[1]), "file.csv:4:3");
}

TEST(CsvTokenizer, BadQuotesAreErrorsWithTheirPlace) {
  expect_error("a quoted field is never closed\n  where: file.csv:2:3", [] { split("a,b\nc,\"d\ne,f\n"); });
  expect_error("a quoted field is never closed\n  where: file.csv:1:1", [] { split("\"a\"\""); });
  expect_error("a quoted field is never closed\n  where: file.csv:1:1", [] { split("\""); });
  expect_error("continues after its closing quote with \"b\"\n  where: file.csv:1:4", [] { split("\"a\"b"); });
  expect_error("continues after its closing quote with \" ,c\"\n  where: file.csv:3:3",
               [] { split("x\n\"a\nb\" ,c"); });
  expect_error("a CSV file cannot have delimiter", [] { split("", {'"', '"'}); });
  expect_error("a CSV file cannot have delimiter", [] { split("", {'\n', '"'}); });
}

TEST(CsvDialect, IsWhatTheFilesOwnNameSaysUnlessOneIsGiven) {
  for (const char* path : {"a.tsv", "a.tsv.gz", "d.csv/a.tsv", "A.TSV", "a.csv.tsv"}) {
    EXPECT_EQ(dialect_of_file(path).delimiter, '\t') << path;
    EXPECT_EQ(dialect_of_file(path, {';', '\0'}).delimiter, ';') << path;
    EXPECT_EQ(dialect_of_file(path, {',', '\0'}).delimiter, ',') << path;
  }
  for (const char* path : {"a.csv", "d.tsv/a.csv", "d.tsv.x/a", "a.tsv.bak", "a.tsv.bak.csv.gz", ".tsv", "atsv"}) {
    EXPECT_EQ(dialect_of_file(path).delimiter, ',') << path;
    EXPECT_EQ(dialect_of_file(path, {'\t', '"'}).delimiter, '\t') << path;
  }
  EXPECT_EQ(dialect_of_file("a.tsv", {'\0', '\''}).quote, '\'');
}

}  // namespace
}  // namespace lockstep
