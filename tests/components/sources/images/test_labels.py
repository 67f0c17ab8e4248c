import json

import numpy as np
import pytest
from scipy.io import savemat

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.images.labels import read_class_names
from penstock.components.sources.images.options import Images
from penstock.components.sources.open import open_source

SIX = range(1, 7)
CARS = ["AM General Hummer", "Acura RL", "Acura TL"]


@pytest.fixture
def cars(put, encoded):
    """A folder with six images in `car_ims`, numbered as in the data set Stanford Cars."""
    for number in SIX:
        root = put(f"car_ims/{number:06}.jpg", encoded())
    return root


@pytest.fixture
def labels(tmp_path):
    def write(name, content):
        path = tmp_path / name
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def annotation_rows():
    return [(f"car_ims/{n:06}.jpg", 10 * n, (n - 1) % 3 + 1, int(n > 4)) for n in SIX]


def stanford_mat(path):
    """Writes Stanford Cars' `cars_annos.mat`: a 1x6 struct array and a cell array of names."""
    kinds = [("relative_im_path", "O"), ("bbox_x1", "O"), ("class", "O"), ("test", "O")]
    rows = [(p, np.uint16(x), np.uint8(c), np.uint8(t)) for p, x, c, t in annotation_rows()]
    savemat(
        path,
        {
            "annotations": np.array([rows], dtype=kinds),
            "class_names": np.array([CARS], dtype=object),
        },
    )
    return str(path)


def classes(rows):
    return [
        (row["image/filename"].decode(), row["image/class/label"], row["image/class/text"].decode())
        for row in rows
    ]


@pytest.mark.parametrize("below", ["", "car_ims"])
def test_stanford_cars(cars, read_images, tmp_path, below):
    file = stanford_mat(tmp_path / "cars_annos.mat")
    rows, rejected = read_images(
        cars / below, labels_file=file, labels_variable="annotations", class_names_file=file
    )
    prefix = "" if below else "car_ims/"
    assert classes(rows) == [
        (f"{prefix}{n:06}.jpg", (n - 1) % 3 + 1, CARS[(n - 1) % 3]) for n in SIX
    ]
    assert [row["bbox_x1"] for row in rows] == [10, 20, 30, 40, 50, 60]
    assert [row["test"] for row in rows] == [0, 0, 0, 0, 1, 1]
    assert rejected == []


def test_what_was_taken_is_said(cars, tmp_path):
    file = stanford_mat(tmp_path / "cars_annos.mat")
    options = Images(labels_file=file, labels_variable="annotations", class_names_file=file)
    source = open_source(str(cars), options)
    assert source.notes == (
        f"labels are rows of {file}: file from 'relative_im_path', class from 'class', "
        "besides 'bbox_x1', 'test'; files are found by their path",
        "classes: 3, of 2 images",
    )
    assert [(c.name, c.kind.value) for c in source.columns[6:]] == [
        ("image/class/label", "INT"),
        ("image/class/text", "BYTES"),
        ("bbox_x1", "INT"),
        ("test", "INT"),
    ]


def test_plain_vectors_of_a_mat_file(cars, read_images, tmp_path):
    file = tmp_path / "labels.mat"
    names = np.array([f"{n:06}.jpg" for n in SIX], object)
    savemat(file, {"image": names, "label": np.arange(6.0), "size": np.array([1.5] * 6)})
    rows, _ = read_images(cars, labels_file=str(file))
    assert [row["image/class/label"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert rows[0]["size"] == 1.5
    assert "image/class/text" not in rows[0]


def test_names_of_classes_from_another_file(cars, read_images, labels, tmp_path):
    file = labels("train.csv", "fname,class\n" + "".join(f"{n:06}.jpg,{n % 3 + 1}\n" for n in SIX))
    names = tmp_path / "cars_meta.mat"
    savemat(names, {"class_names": np.array([CARS], object)})
    with pytest.raises(
        DataError, match=r"train.csv: row 2: class 3 is beyond the 3 names of classes, 0 to 2"
    ):
        read_images(cars, labels_file=file, class_names_file=str(names))
    zero = labels("zero.csv", "fname,class\n" + "".join(f"{n:06}.jpg,{n % 3}\n" for n in SIX))
    rows, _ = read_images(cars, labels_file=zero, class_names_file=str(names))
    assert classes(rows)[0] == ("car_ims/000001.jpg", 1, "Acura RL")


@pytest.mark.parametrize("variable", [None, "images"])
def test_json(cars, read_images, labels, variable):
    content = [{"file": f"{n:06}.jpg", "class": n, "text": f"c{n}", "box": [n, 1.5]} for n in SIX]
    file = labels("labels.json", {variable: content, "version": 1} if variable else content)
    rows, rejected = read_images(cars, labels_file=file, labels_variable=variable)
    assert classes(rows) == [(f"car_ims/{n:06}.jpg", n, f"c{n}") for n in SIX]
    assert rows[1]["box"] == [2.0, 1.5]
    assert rejected == []


def test_classes_that_are_only_texts_are_numbered_in_order(cars, read_images, labels):
    content = "file,class\n" + "".join(
        f"car_ims\\{n:06}.jpg,{'cab' if n > 2 else 'van'}\n" for n in SIX
    )
    rows, _ = read_images(cars, labels_file=labels("labels.csv", content))
    assert [row["image/class/label"] for row in rows] == [1, 1, 0, 0, 0, 0]
    order = labels("classes.txt", "van\ncab\n\n")
    rows, _ = read_images(cars, labels_file=labels("l.csv", content), class_names_file=order)
    assert [row["image/class/label"] for row in rows] == [0, 0, 1, 1, 1, 1]


def test_csv_by_name_without_extension_and_columns_that_are_named(cars, read_images, labels):
    lines = [f"{n:06},cab,{n / 4},x{n}" for n in SIX]
    file = labels("labels.csv", "key,kind,price,class\n" + "\n".join(lines) + "\n")
    rows, _ = read_images(cars, labels_file=file, file_column="key", text_column="kind")
    assert classes(rows)[:2] == [("car_ims/000001.jpg", 0, "cab"), ("car_ims/000002.jpg", 0, "cab")]
    assert rows[2]["price"] == 0.75
    assert rows[2]["class"] == b"x3"


def test_folders_are_classes_without_a_label_file(put, encoded, read_images, labels):
    for name in ("dog/a.jpg", "cat/x/b.jpg", "cat/c.png"):
        root = put(name, encoded("PNG" if name.endswith("png") else "JPEG"))
    rows, _ = read_images(root)
    assert classes(rows) == [
        ("cat/c.png", 0, "cat"),
        ("cat/x/b.jpg", 0, "cat"),
        ("dog/a.jpg", 1, "dog"),
    ]
    rows, _ = read_images(root, class_names_file=labels("c.json", ["ant", "dog", "cat"]))
    assert [row["image/class/label"] for row in rows] == [2, 2, 1]
    with pytest.raises(DataError, match=r"dog/a.jpg: class 'dog' is not one of 'ant', 'cat'"):
        read_images(root, class_names_file=labels("d.json", ["ant", "cat"]))


def test_images_without_label_and_labels_without_image(cars, read_images, labels):
    lines = [f"{n:06}.jpg,{n}" for n in (1, 2, 9, 4, 8)] + ["000005.jpg,"]
    file = labels("labels.csv", "file,class\n" + "\n".join(lines) + "\n")
    rows, rejected = read_images(cars, labels_file=file)
    assert [row["image/class/label"] for row in rows] == [1, 2, 4]
    such = "(3 such images: 'car_ims/000003.jpg', 'car_ims/000005.jpg', 'car_ims/000006.jpg')"
    assert rejected[2:] == [
        f"put/car_ims/00000{n}.jpg: has no label in labels.csv {such}; add one "
        "(`labels_file`, or a folder below the input), or set `unlabelled='keep'` or 'drop'"
        for n in (3, 5, 6)
    ]
    assert len(rejected) == 5
    rows, rejected = read_images(cars, labels_file=file, unlabelled="keep", missing_images="drop")
    assert [row["image/class/label"] for row in rows] == [1, 2, None, 4, None, None]
    assert rejected == []
    rows, rejected = read_images(cars, labels_file=file, unlabelled="drop")
    assert len(rows) == 3
    assert rejected == [
        "labels.csv: row 3: no image '000009.jpg' below the input (2 such rows: '000009.jpg', "
        "'000008.jpg'); add it, or set `missing_images='drop'`",
        "labels.csv: row 5: no image '000008.jpg' below the input (2 such rows: '000009.jpg', "
        "'000008.jpg'); add it, or set `missing_images='drop'`",
    ]


def test_images_in_no_folder(put, encoded, read_images):
    put("a.jpg", encoded())
    root = put("cat/b.jpg", encoded())
    rows, rejected = read_images(root)
    assert [row["image/filename"] for row in rows] == [b"cat/b.jpg"]
    assert rejected == [
        "put/a.jpg: has no label and lies in no folder; add one (`labels_file`, or a folder "
        "below the input), or set `unlabelled='keep'` or 'drop'"
    ]
    (root / "cat" / "b.jpg").unlink()
    rows, _ = read_images(root, unlabelled="keep")
    assert [name for name in rows[0] if "class" in name] == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.csv", "", r"is empty \(0 bytes\), expected labels"),
        ("l.csv", "a,class\n1,2\n", r"no column names the images; it has 'a', 'class'; say"),
        ("l.csv", "file,a\nx.jpg,2\n", r"no column of classes; it has 'file', 'a'; say"),
        ("l.csv", "file,class\nx.jpg,2\n", r"none of its 1 files, the first 'x.jpg', is among"),
        ("l.csv", "file,class\n000001.jpg,1\n1,2,3\n", r"l.csv: line 3 \(row 2\): 3 fields"),
        ("l.csv", "file,class\n000001.jpg,1.5\n", r"column 'class' has classes that are no whole"),
        (
            "l.csv",
            "file,class\n000001.jpg,1\n000001.jpg,2\n",
            r"rows 1 and 2 both name '000001.jpg'; an image has one row",
        ),
        (
            "l.csv",
            "file,class,text\n000001.jpg,1,a\n000002.jpg,1,b\n",
            r"row 2: class 1 is b'b', above b'a'; expected one text per class",
        ),
        ("l.csv", "file,class,image/x\n000001.jpg,1,2\n", r"column 'image/x' has the name of a f"),
        ("l.csv", "file,class,x\n000001.jpg,1,0.5\n000002.jpg,1,nan\n000003.jpg,2,1.5\n",
         r"line 3 \(row 2\), column 'x': nan is not finite"),
        ("l.parquet", b"PAR1" + bytes(20), r"is no label file; expected CSV, JSON or MATLAB"),
        ("l.csv", "file,class\n,1\n000001.jpg,2\n", r"row 1: names no file"),
        ("l.json", '{"a": ', r"not JSON \(Expecting value"),
        ("l.json", '[{"file": "1.jpg", "class": 1, "class": 2}]', r"\(key 'class' occurs twice\)"),
        ("l.json", '{"a": [1, 2]}', r"expected a list of objects, .*has an object with 'a'; write"),
        ("l.json", '[1, {"file": "x"}]', r"expected a list of objects, .*has other values; write"),
        (
            "l.json",
            '[{"file": "000001.jpg", "class": 1}, {"file": "000002.jpg", "class": "b"},'
            ' {"file": "000003.jpg", "class": 2}]',
            r"row 2, column 'class': 'b' is text, expected a whole number",
        ),
        ("l.json", '[{"file": "x", "class": {"a": 1}}]', r"column 'class' holds objects or lists"),
        ("l.mat", b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"\x0e\0\0\0\xff\0\0\0xx",
         r"damaged MATLAB file \(.*\); copy it again"),
        ("l.mat", b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(600),
         r"version 7.3 \(HDF5\), which is not read; save it with save\(..., '-v7'\)"),
    ],
)  # fmt: skip
def test_bad_label_files_are_named(cars, labels, name, content, message):
    with pytest.raises(DataError, match=rf"{name}: .*{message}|{message}") as error:
        open_source(str(cars), Images(labels_file=labels(name, content)))
    assert "\n" not in str(error.value)
    assert name in str(error.value)


def test_a_column_that_is_not_there(cars, labels):
    file = labels("l.csv", "file,class\n000001.jpg,1\n")
    with pytest.raises(UsageError, match=r"`text_column` 'word': .*l.csv has 'file', 'class'"):
        open_source(str(cars), Images(labels_file=file, text_column="word"))


def test_a_name_that_several_images_have(put, encoded, labels):
    put("a/1.jpg", encoded())
    root = put("b/1.jpg", encoded())
    file = labels("l.csv", "file,class\n1.jpg,7\n")
    with pytest.raises(
        DataError, match=r"row 1: '1.jpg' may be .*a/1.jpg or .*b/1.jpg; write paths"
    ):
        open_source(str(root), Images(labels_file=file))


def test_names_of_classes(labels, tmp_path):
    assert read_class_names(labels("a.txt", b"\xef\xbb\xbfcat\r\n dog \r\n")) == ("cat", "dog")
    assert read_class_names(labels("a.json", ["cat"])) == ("cat",)
    assert read_class_names(stanford_mat(tmp_path / "m.mat")) == tuple(CARS)
    with pytest.raises(DataError, match=r"b.txt: names class 'cat' twice"):
        read_class_names(labels("b.txt", "cat\ncat\n"))
    with pytest.raises(DataError, match=r"c.json: no names of classes; expected one name per line"):
        read_class_names(labels("c.json", {"a": 1}))


@pytest.mark.parametrize("variable", [None, "annotation"])
def test_a_struct_array_of_a_mat_file_is_named(cars, tmp_path, variable):
    file = stanford_mat(tmp_path / "cars_annos.mat")
    with pytest.raises(DataError, match="has 'annotations', 'class_names'; name the struct array"):
        open_source(str(cars), Images(labels_file=file, labels_variable=variable))


def test_one_struct_is_one_row(put, encoded, read_images, tmp_path):
    file = tmp_path / "labels.mat"
    savemat(file, {"a": {"file": "1.jpg", "class": 3}})
    root = put("x/1.jpg", encoded())
    rows, _ = read_images(root, labels_file=str(file), labels_variable="a")
    assert [row["image/class/label"] for row in rows] == [3]


def test_texts_beside_numbers_are_among_the_names_of_classes(cars, read_images, labels):
    file = labels("l.csv", "file,label,text\n000001.jpg,0,ant\n000002.jpg,1,cow\n")
    names = labels("names.txt", "ant\nbee\n")
    with pytest.raises(DataError) as error:
        read_images(cars, labels_file=file, class_names_file=names)
    assert str(error.value) == f"{file}: row 2: class 'cow' is not one of 'ant', 'bee'"
