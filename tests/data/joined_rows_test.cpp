// Rows that a reader joins, cuts or leaves out are counted in a warning, which everyone sees.
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/log.h"
#include "lockstep/data/csv_reader.h"
#include "lockstep/data/text_file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class JoinedRows : public ::testing::Test {
 protected:
  // The rows of a file, and what was said about them.
  std::vector<std::string> read(const std::string& name, const std::string& content, TextFileOptions options) {
    write_file_atomically(folder_ / name, content);
    std::ostringstream log;
    const LogRedirection to(log);
    const auto rows = open_text_file(folder_ / name, options);
    said_ = log.str();
    std::vector<std::string> texts;
    for (std::int64_t i = 0; i < rows->size(); ++i) texts.push_back(rows->get(i).texts.front());
    return texts;
  }
  using Rows = std::vector<std::string>;

  TemporaryFolder folder_;
  std::string said_;
  TextFileOptions text_ = [] {
    TextFileOptions options;
    options.texts = {"text"};
    return options;
  }();
};

constexpr const char* kPlainQuotes = "text\tlabel\none\ta\n\"two\tb\nthree\ta\nfour\"\tb\nfive\ta\n";

TEST_F(JoinedRows, OfATableWithTabsAreSaidWithTheirLine) {
  EXPECT_EQ(read("reviews.tsv", kPlainQuotes, text_), (Rows{"one", "two\tb\nthree\ta\nfour", "five"}));
  EXPECT_NE(said_.find("1 quoted field joins 3 lines, the first at " + folder_ / "reviews.tsv:3:1"), std::string::npos)
      << said_;
  EXPECT_NE(said_.find("--quoting none"), std::string::npos) << said_;
  text_.dialect.quote = '\0';
  EXPECT_EQ(read("reviews.tsv", kPlainQuotes, text_), (Rows{"one", "\"two", "three", "four\"", "five"}));
  EXPECT_EQ(said_, "");
  // In CSV a field of several lines is usual.
  text_.dialect.quote = '"';
  EXPECT_EQ(read("reviews.csv", "text,label\n\"one\ntwo\",a\n", text_), (Rows{"one\ntwo"}));
  EXPECT_EQ(said_, "");
}

TEST_F(JoinedRows, OfALoneQuoteAmongCommasAreSaidToo) {
  text_.label = "label";
  const std::string table = "text,label\n\"open it,pos\nmiddle,neg\nclose\",pos\nz,neg\nq,pos\n";
  EXPECT_EQ(read("rows.csv", table, text_), (Rows{"open it,pos\nmiddle,neg\nclose", "z", "q"}));
  EXPECT_NE(said_.find("1 quoted field joins 3 lines, each of which has the fields of a row, the first at " +
                       folder_ / "rows.csv:2:1"),
            std::string::npos)
      << said_;
  EXPECT_NE(said_.find("--quoting none"), std::string::npos) << said_;
  const auto is_said = [&](const std::string& rows, const char* delimiter = ",") {
    text_.dialect.delimiter = delimiter[0];
    read("rows.csv", rows, text_);
    return said_.find("quoted field") != std::string::npos;
  };
  EXPECT_TRUE(is_said("label,text\npos,\"a\nneg,b\"\nneg,c\n"));
  EXPECT_TRUE(is_said("id,text,label\n1,\"a,pos\r\n2,b\",pos\r\n3,c,neg\n"));
  EXPECT_TRUE(is_said("text;label\n\"a;1\rb\";0\nc;1\n", ";"));
  EXPECT_TRUE(is_said("text,label\n\"a,0.5\nb\",2.25\nc,1\n"));
  // One inner line with a label of its own, a slip, or a blank field, changes nothing.
  EXPECT_TRUE(is_said("text,label\n\"a,neg\nb,godo\nc,pos\nd\",neg\ne,pos\n"));
  EXPECT_TRUE(is_said("note,text,label\nn,\"a,neg\nn,b,neg\n,c,pos\nn,d\",neg\nn,e,pos\n"));
  EXPECT_TRUE(is_said("id,text,label\n1,\"a,pos\n2,b,\n3,c d\",pos\n4,e,neg\n"));
  // Texts of several lines, some of them with commas.
  EXPECT_FALSE(is_said("text,label\n\"one\ntwo\",pos\n\"Dear Sir, hello\nbye\",neg\nc,neg\n"));
  EXPECT_FALSE(is_said("text,label\n\"yes,no\nboth\",pos\nc,neg\n"));
  EXPECT_FALSE(is_said("id,text,label\n1,\"f(a,b)\ng(a,b)\",pos\n2,c,neg\n"));
  EXPECT_FALSE(is_said("text,label\n\"one, two\nthree, four\nfive\",pos\nc,neg\n"));
  EXPECT_FALSE(is_said("id,text,label\n1,\"Well, yes\nI came, I saw, I won\nand, no\",pos\n2,c,neg\n"));
  EXPECT_FALSE(is_said("text,label\n\"a,1\nb\",pos\nc,neg\n"));
  text_.label.clear();
  EXPECT_FALSE(is_said("text\n\"one\ntwo\"\n"));
  text_.texts = {"text", "other"};
  EXPECT_FALSE(is_said("text,other\n\"Well, yes\nno\",x\n"));
}

TEST_F(JoinedRows, OfATableOfNumbersAreSaid) {
  const auto says = [&](const std::string& name, const std::string& rows) {
    write_file_atomically(folder_ / name, rows);
    CsvSchema schema;
    schema.columns = {number_column("x", CsvColumn::Scaling::None), category_column("c"), label_column("y")};
    std::ostringstream log;
    const LogRedirection to(log);
    read_csv(folder_ / name, schema);
    return log.str();
  };
  const std::string lone = says("t.csv", "x,c,y\n1,\"red,a\n2,blue\",b\n3,red,a\n");
  EXPECT_NE(lone.find("joins 2 lines, each of which has the fields of a row, the first at " + folder_ / "t.csv:2:3"),
            std::string::npos)
      << lone;
  EXPECT_EQ(says("t.csv", "x,c,y\n1,\"red\nblue\",b\n3,\"red,\nblue\",a\n"), "");
  EXPECT_NE(says("t.tsv", "x\tc\ty\n1\t\"red\nblue\"\tb\n3\tred\ta\n").find("1 quoted field joins 2 lines"),
            std::string::npos);
}

TEST_F(JoinedRows, ThatAreLeftOutAreCountedAtTheUsualLevel) {
  text_.empty_texts = RowPolicy::Skip;
  text_.invalid_texts = RowPolicy::Skip;
  EXPECT_EQ(read("some.csv", "text\none\n\" \"\n\xff\ntwo\n", text_), (Rows{"one", "two"}));
  EXPECT_NE(said_.find("left out 2 of 4 rows: 0 for their label, 1 for an empty text, 1 for invalid bytes"),
            std::string::npos)
      << said_;
}

TEST_F(JoinedRows, LinesEndAsInPythonsTextMode) {
  text_.empty_texts = RowPolicy::Keep;
  const std::string content = "one\r\n\r\ntwo\rthree\n\nfour";
  EXPECT_EQ(read("lines.txt", content, text_), (Rows{"one", "", "two", "three", "", "four"}));
  text_.keep_line_ends = true;
  EXPECT_EQ(read("lines.txt", content, text_), (Rows{"one\n", "\n", "two\n", "three\n", "\n", "four"}));
  EXPECT_EQ(read("ended.txt", "one\n", text_), (Rows{"one\n"}));
}

TEST_F(JoinedRows, TheFirstRecordOfATableWithoutAHeaderIsARow) {
  text_.texts = {"2"};
  text_.column_names = {"1", "2"};
  EXPECT_EQ(read("bare.csv", "a,one\nb,two\n", text_), (Rows{"one", "two"}));
}

}  // namespace
}  // namespace lockstep
