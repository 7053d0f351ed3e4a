#include "lockstep/data/csv_reader.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/base/files/atomic_file.h"
#include "tests/data/gzip_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Scaling = CsvColumn::Scaling;

class CsvReader : public ::testing::Test {
 protected:
  std::string file(const std::string& content, const std::string& name = "file.csv") {
    write_file_atomically(folder_ / name, content);
    return folder_ / name;
  }
  at::Tensor features(const std::string& content, const CsvSchema& schema) {
    return read_csv(file(content), schema).dataset->fields().at("features");
  }
  static CsvSchema schema(std::vector<CsvColumn> columns, bool header = true) { return {std::move(columns), header}; }
  static at::Tensor rows(std::vector<float> values, std::int64_t width) {
    return at::tensor(values).view({-1, width}).clone();
  }
  TemporaryFolder folder_;
};

TEST_F(CsvReader, MakesFeaturesAndLabels) {
  const CsvSchema declared =
      schema({number_column("x"), category_column("colour"), label_column("class"), ignored_column("note")});
  const std::string content = "note,x,class,colour\nfirst,1.5,yes,red\n\"a, b\",-2,no,blue\n,3e1,yes,red\n";
  for (const std::string& bytes : {content, gzip_bytes(content)}) {
    const CsvData data = read_csv(file(bytes), declared);
    EXPECT_TRUE(data.dataset->fields().at("features").equal(rows({1.5, 0, 1, -2, 1, 0, 30, 0, 1}, 3)));
    EXPECT_TRUE(data.dataset->fields().at("labels").equal(at::tensor({1, 0, 1}, at::kLong)));
    EXPECT_EQ(data.encoding.feature_names(), (std::vector<std::string>{"x", "colour=blue", "colour=red"}));
    EXPECT_EQ(data.encoding.classes(), (std::map<std::string, std::int64_t>{{"no", 0}, {"yes", 1}}));
  }
}

TEST_F(CsvReader, WithoutAHeaderTakesColumnsInOrder) {
  EXPECT_TRUE(features("1;2\n3;4\n", {{number_column("a"), number_column("b")}, false, {';', '"'}})
                  .equal(rows({1, 2, 3, 4}, 2)));
}

TEST_F(CsvReader, ScalesNumbers) {
  const auto scaled = [&](Scaling scaling, const std::string& column) {
    return features("x\n" + column, schema({number_column("x", scaling)}));
  };
  EXPECT_TRUE(scaled(Scaling::None, "0\n5\n20\n").equal(rows({0, 5, 20}, 1)));
  EXPECT_TRUE(scaled(Scaling::MinMax, "-10\n0\n10\n").allclose(rows({0, 0.5, 1}, 1)));
  // log(1 + x) of 0, 1, 3 is 0, log 2, 2 log 2
  EXPECT_TRUE(scaled(Scaling::LogMinMax, "0\n1\n3\n").allclose(rows({0, 0.5, 1}, 1)));
  // mean 3, squares of deviations 4 + 0 + 4, deviation sqrt(8 / 3)
  const float d = 2 / std::sqrt(8.f / 3);
  EXPECT_TRUE(scaled(Scaling::Standard, "1\n3\n5\n").allclose(rows({-d, 0, d}, 1)));
  for (const Scaling scaling : {Scaling::MinMax, Scaling::LogMinMax, Scaling::Standard}) {
    EXPECT_TRUE(scaled(scaling, "7.1\n7.1\n7.1\n").allclose(rows({0, 0, 0}, 1))) << "a constant becomes zeros";
  }
}

TEST_F(CsvReader, AppliesToAnotherFileWhatTheTrainingFileTaught) {
  const CsvSchema declared = schema({number_column("x", Scaling::MinMax), category_column("c"), label_column("y")});
  const CsvData train = read_csv(file("x,c,y\n0,a,p\n10,b,q\n"), declared);
  const CsvSchema other_order = schema(
      {label_column("y"), ignored_column("more"), category_column("c"), number_column("x", Scaling::MinMax)}, false);
  const auto test = read_csv(file("q,?,b,20\nq,?,b,5\n", "test.csv"), other_order, train.encoding);
  EXPECT_TRUE(test->fields().at("features").allclose(rows({2, 0, 1, 0.5, 0, 1}, 3)));
  EXPECT_TRUE(test->fields().at("labels").equal(at::tensor({1, 1}, at::kLong)));

  expect_error("\"z\" in the column \"c\" is not one of the values listed, or seen in training\n  where: " +
                   (folder_ / "test.csv") + ":3:3",
               [&] { read_csv(file("x,c,y\n1,a,p\n1,z,p\n", "test.csv"), declared, train.encoding); });
  expect_error("\"r\" in the column \"y\" is not one of the values",
               [&] { read_csv(file("x,c,y\n1,a,r\n", "test.csv"), declared, train.encoding); });
  expect_error("1 of the 2 feature columns of the training file are missing", [&] {
    read_csv(file("c,y\na,p\n", "test.csv"), schema({category_column("c"), label_column("y")}), train.encoding);
  });
  expect_error("the column \"x\" was not a feature of the training file, or was of another kind", [&] {
    read_csv(file("x,c,y\n1,a,p\n"), schema({number_column("x"), category_column("c"), label_column("y")}),
             train.encoding);
  });
}

TEST_F(CsvReader, KeepsWhatTheTrainingFileTaughtAsJson) {
  CsvColumn open = category_column("c");
  open.unknown_allowed = true;
  const CsvSchema declared = schema({number_column("x", Scaling::Standard), open,
                                     category_column("i", {"low", "high"}, CsvColumn::Encoding::Index),
                                     number_column("l", Scaling::LogMinMax), label_column("y")});
  const CsvData train = read_csv(file("x,c,i,l,y\n0.1,a,low,1,p\n10,\"b\"\"\",high,1000,q\n3,a,low,7,p\n"), declared);
  const std::string json = train.encoding.json();
  const CsvEncoding again = CsvEncoding::from_json(json, "folder/file.json");
  EXPECT_EQ(again.json(), json);
  EXPECT_EQ(again.feature_names(), train.encoding.feature_names());
  CsvSchema from_json = schema(again.feature_columns());
  from_json.columns.push_back(label_column("y"));
  const std::string other = file("l,y,x,i,c\n12,q,0.3,high,unknown\n1,p,1e9,low,\"b\"\"\"\n", "test.csv");
  const Batch want = read_csv(other, declared, train.encoding)->fields();
  const Batch got = read_csv(other, from_json, again)->fields();
  EXPECT_TRUE(got.at("features").equal(want.at("features"))) << "to the last bit";
  EXPECT_TRUE(got.at("labels").equal(want.at("labels")));
  for (const char* bad : {"", "{}", "[]", R"({"columns": [{"name": "x", "kind": "numbr"}], "classes": {}})"}) {
    expect_error("this is not an encoding of a table", [&] { CsvEncoding::from_json(bad, "folder/file.json"); });
  }
  expect_error("\"scaling\" is of another type: number", [] {
    CsvEncoding::from_json(R"({"columns": [{"name": "x", "kind": "number", "scaling": 1}], "classes": {}})", "a.json");
  });
  expect_error("a.json, column 1", [] { CsvEncoding::from_json(R"({"columns": [7], "classes": {}})", "a.json"); });
  expect_error("there is no \"classes\"", [] { CsvEncoding::from_json(R"({"columns": []})", "a.json"); });
  for (const char* classes : {R"({"a": 1})", R"({"a": 0, "b": 0})", R"({"a": -1})"}) {
    expect_error("out of order", [&] {
      CsvEncoding::from_json(fmt::format(R"({{"columns": [], "classes": {}}})", classes), "a.json");
    });
  }
}

TEST_F(CsvReader, EncodesCategories) {
  CsvColumn index = category_column("c", {"low", "high"}, CsvColumn::Encoding::Index);
  EXPECT_TRUE(features("c\nhigh\nlow\nhigh\n", schema({index})).equal(rows({1, 0, 1}, 1)));
  CsvColumn open = category_column("c", {"low", "high"});
  expect_error("\"mid\" in the column \"c\"", [&] { features("c\nmid\n", schema({open})); });
  open.unknown_allowed = true;
  EXPECT_TRUE(features("c\nhigh\nmid\n", schema({open})).equal(rows({0, 1, 0, 0}, 2)));
  EXPECT_TRUE(
      features("c\n\"say \"\"a\"\"\"\nb\n\"say \"\"a\"\"\"\n", schema({category_column("c", {"say \"a\"", "b"})}))
          .equal(rows({1, 0, 0, 1, 1, 0}, 2)));
}

TEST_F(CsvReader, NumbersClasses) {
  const auto labels = [&](const CsvColumn& column, const std::string& content) {
    return read_csv(file("x,y\n" + content), schema({number_column("x"), column})).dataset->fields().at("labels");
  };
  EXPECT_TRUE(labels(label_column("y"), "0,10\n0,9\n0,2\n").equal(at::tensor({2, 1, 0}, at::kLong)));
  EXPECT_TRUE(
      labels(label_column("y", {{"ok", 0}}, 1), "0,bad\n0,ok\n0,worse\n").equal(at::tensor({1, 0, 1}, at::kLong)));
  EXPECT_TRUE(labels(label_column("y", {{"a", 3}, {"b", 3}}), "0,a\n0,b\n").equal(at::tensor({3, 3}, at::kLong)));
  expect_error("\"c\" in the column \"y\" is not one of the values", [&] {
    labels(label_column("y", {{"a", 3}}), "0,c\n");
  });
}

TEST_F(CsvReader, BadFilesAreErrorsWithFileLineAndColumn) {
  const CsvSchema declared = schema({number_column("x"), number_column("size", Scaling::LogMinMax), label_column("y")});
  const auto read = [&](const std::string& content) {
    return [this, content, &declared] { features(content, declared); };
  };
  const std::string path = folder_ / "file.csv";
  expect_error("\"abc\" in the column \"x\" is not a finite number\n  where: " + path + ":3:1",
               read("x,size,y\n1,2,a\nabc,2,b\n"));
  expect_error("the cell of the column \"x\", which holds numbers, is blank\n  where: " + path + ":2:1",
               read("x,size,y\n,2,a\n"));
  expect_error("\"nan\" in the column \"size\" is not a finite number\n  where: " + path + ":2:3",
               read("x,size,y\n1,nan,a\n"));
  expect_error("\"-1\" in the column \"size\" is negative", read("x,size,y\n1,-1,a\n"));
  expect_error("3 fields expected, 2 found\n  where: " + path + ":3:3", read("x,size,y\n1,2,a\n1,2\n"));
  expect_error("3 fields expected, 4 found\n  where: " + path + ":2:5", read("x,size,y\n1,2,a,b\n"));
  expect_error("the header has no column \"y\"", read("x,size\n1,2\n"));
  expect_error("column \"z\" is not declared; declared are: x, size, y\n  where: " + path + ":1:5",
               read("x,y,z,size\n"));
  expect_error("column \"x\" occurs twice", read("x,y,x,size\n"));
  expect_error("the CSV file is empty", read(""));
  expect_error("the CSV file has no records", read("x,size,y\n"));
  expect_error("a quoted field is never closed\n  where: " + path + ":2:5", read("x,size,y\n1,2,\"a\n"));
  expect_error("ends in the middle", read(gzip_bytes("x,size,y\n1,2,a\n").substr(0, 25)));
  expect_error("No such file", [&] { read_csv(folder_ / "absent.csv", declared); });
}

TEST_F(CsvReader, TooManyCategoriesAreAnError) {
  std::string content = "c\n";
  for (int i = 0; i <= 65536; ++i) content += std::to_string(i) + "\n";
  expect_error("more than 65536 different texts in the column \"c\"\n  where: " + (folder_ / "file.csv") + ":65538:1",
               [&] { features(content, schema({category_column("c")})); });
}

TEST(CsvSchema, RefusesWhatContradictsItself) {
  const auto check = [](std::vector<CsvColumn> columns) { return [columns] { check_schema({columns}); }; };
  const auto with = [](CsvColumn column, const std::function<void(CsvColumn&)>& change) {
    change(column);
    return column;
  };
  expect_error("no column is a feature", check({label_column("y")}));
  expect_error("there are two label columns", check({number_column("x"), label_column("y"), label_column("z")}));
  expect_error("two columns have this name", check({number_column("x"), ignored_column("x")}));
  expect_error("this kind of column has no scaling",
               check({with(category_column("x"), [](CsvColumn& c) { c.scaling = Scaling::MinMax; })}));
  expect_error("this kind of column has no values",
               check({with(number_column("x"), [](CsvColumn& c) { c.values = {"a"}; })}));
  expect_error("this kind of column has no class_of", check({with(number_column("x"), [](CsvColumn& c) {
                 c.class_of = {{"a", 1}};
               })}));
  expect_error("a value is listed twice", check({category_column("c", {"a", "b", "a"})}));
  expect_error("an unknown value has no index", check({with(category_column("c", {}, CsvColumn::Encoding::Index),
                                                            [](CsvColumn& c) { c.unknown_allowed = true; })}));
  expect_error("a class is negative", check({number_column("x"), label_column("y", {{"a", -1}})}));
  expect_error("all texts are of the same class", check({number_column("x"), label_column("y", {}, 1)}));
}

}  // namespace
}  // namespace lockstep
