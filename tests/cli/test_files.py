#!/usr/bin/env python3
"""The .npy files of sluice logits.   usage: test_files.py SLUICE_STANDIN"""
import os, resource
from support import Case, main, read_npy, run, write_npy

IDS = "4,5,6,7,8,9,10,11,12"  # nine: two chunks of the stand-in
T, L, H, V, K = 9, 3, 8, 300, 2


class Files(Case):
    def logits(self, *args, model=None, ids=IDS, **kwargs):
        return run("logits", model or self.model(), "--ids", ids, *args, **kwargs)

    def test_logits_are_rows_of_positions(self):
        for role in ([], ["--as", "prompt"], ["--as", "generated"]):
            self.expect(self.logits("--out", self.path("l.npy"), *role), 0)
            self.assertEqual(read_npy(self.path("l.npy")),
                             ((T, V), "<f4", [30000.0 + 1000 * t + i for t in range(T) for i in range(V)]))

    def test_hidden_is_the_embedding_and_each_layer(self):
        self.expect(self.logits("--out", self.path("l.npy"), "--hidden", self.path("h.npy")), 0)
        self.assertEqual(read_npy(self.path("h.npy")),
                         ((L + 1, T, H), "<f4", [10000.0 * l + 1000 * t + i
                                                 for l in range(-1, L) for t in range(T) for i in range(H)]))

    def test_routes_are_by_descending_weight_of_layers_with_experts(self):
        self.expect(self.logits("--out", self.path("l.npy"), "--routes", self.path("r")), 0)
        self.assertEqual(read_npy(self.path("r_ids.npy")),
                         ((2, T, K), "<i4", [x for _ in range(2) for t in range(T) for x in (3, t % 3)]))
        self.assertEqual(read_npy(self.path("r_weights.npy")), ((2, T, K), "<f4", [0.75, 0.25] * (2 * T)))

    def test_nothing_is_left_but_what_was_asked(self):
        self.logits("--out", self.path("l.npy"), "--routes", self.path("r"))
        self.assertEqual(self.files(), ["l.npy", "r_ids.npy", "r_weights.npy"])

    def test_a_file_that_is_there_is_replaced(self):
        with open(self.path("l.npy"), "w") as f:
            f.write("old")
        self.expect(self.logits("--out", self.path("l.npy")), 0)
        self.assertEqual(read_npy(self.path("l.npy"))[0], (T, V))

    def test_a_link_stays_a_link(self):
        open(self.path("real.npy"), "w").close()
        os.symlink("real.npy", self.path("l.npy"))
        self.expect(self.logits("--out", self.path("l.npy")), 0)
        self.assertTrue(os.path.islink(self.path("l.npy")))
        self.assertEqual(read_npy(self.path("real.npy"))[0], (T, V))

    def test_a_new_file_has_the_usual_mode(self):
        self.logits("--out", self.path("l.npy"), preexec_fn=lambda: os.umask(0o022))
        self.assertEqual(os.stat(self.path("l.npy")).st_mode & 0o777, 0o644)

    def test_a_failure_leaves_nothing_and_keeps_the_old_file(self):
        with open(self.path("l.npy"), "w") as f:
            f.write("old")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
        r = self.logits("--out", self.path("l.npy"), preexec_fn=limit)
        self.expect(r, 1, "File too large")
        self.assertEqual(self.files(), ["l.npy"])
        with open(self.path("l.npy")) as f:
            self.assertEqual(f.read(), "old")

    def test_a_device_is_not_replaced(self):
        self.expect(self.logits("--out", "/dev/null"), 0)
        self.expect(self.logits("--out", "/dev/full"), 3, "No space left")
        self.assertFalse(os.path.isfile("/dev/full"))

    def test_two_outputs_in_one_file_are_refused(self):
        for other in (["--hidden", self.path("l_ids.npy")], ["--hidden", self.path("..", os.path.basename(self.folder),
                      "l_ids.npy")], ["--routes", self.path("l")]):
            r = self.logits("--out", self.path("l_ids.npy"), *other)
            self.expect(r, 3, "l_ids.npy: two outputs would be this file")
            self.assertEqual(self.files(), [])
        self.expect(self.logits("--out", "/dev/null", "--hidden", "/dev/null"), 0)

    def test_places_that_cannot_be_written_are_refused(self):
        self.expect(self.logits("--out", self.path("none", "l.npy")), 3, "none/l.npy")
        self.expect(self.logits("--out", self.folder), 3, self.folder)
        self.expect(self.logits("--out", self.path("l.npy"), "--hidden", self.path("none", "h.npy")), 3)
        self.assertEqual(self.files(), [])

    def test_ids_outside_the_vocabulary_are_refused(self):
        self.expect(self.logits("--out", self.path("l.npy"), ids="4,300"), 3, "token 1", "300")
        self.assertEqual(self.files(), [])

    def test_more_ids_than_the_model_takes_are_refused(self):
        self.expect(self.logits("--out", self.path("l.npy"), ids=",".join("4" * 1001)), 3, "1001", "1000 fit")
        self.expect(self.logits("--out", self.path("l.npy"), "--ctx", "5"), 3, "5 fit")

    def test_a_model_without_experts_has_no_routes(self):
        m = self.model("dense")
        self.expect(self.logits("--out", self.path("l.npy"), "--routes", self.path("r"), model=m), 3, "no layers with experts")
        self.assertEqual(self.files(), [])
        write_npy(self.path("f.npy"), (2, T, K), "<i4", [0, 1] * (2 * T))
        self.expect(self.logits("--out", self.path("l.npy"), "--force-routes", self.path("f.npy"), model=m), 3)


class ForcedRoutes(Case):
    def force(self, data=None, **kwargs):
        if data is not None:
            with open(self.path("f.npy"), "wb") as f:
                f.write(data)
        elif kwargs:
            kwargs = {"shape": (2, 2, K), "kind": "<i4", "values": [0, 1, 2, 3, 3, 2, 1, 0], **kwargs}
            write_npy(self.path("f.npy"), kwargs["shape"], kwargs["kind"], kwargs["values"], kwargs.get("fortran", False))
        return run("logits", self.model(), "--ids", "4,5", "--out", self.path("l.npy"), "--force-routes", self.path("f.npy"))

    def refuse(self, result, *sentences):
        self.expect(result, 3, "f.npy", *sentences)
        self.assertFalse(os.path.exists(self.path("l.npy")))

    def test_good_routes_are_taken(self):
        self.expect(self.force(shape=(2, 2, K)), 0)

    def test_a_missing_file_is_refused(self):
        self.refuse(self.force())

    def test_a_pipe_is_refused_and_not_waited_for(self):
        os.mkfifo(self.path("f.npy"))
        self.refuse(self.force())

    def test_another_shape_is_named_beside_the_expected_one(self):
        self.refuse(self.force(shape=(2, 4, 1)), "(2, 4, 1)", "(2, 2, 2)")
        self.refuse(self.force(shape=(8,)), "(8,)")

    def test_another_type_is_refused(self):
        self.refuse(self.force(kind="<f4", values=[0.0] * 8), "<f4", "<i4")
        self.refuse(self.force(kind="<i8"), "<i8")

    def test_fortran_order_is_refused(self):
        self.refuse(self.force(fortran=True), "Fortran")

    def test_experts_out_of_range_are_placed(self):
        self.refuse(self.force(values=[0, 1, 2, 3, 3, 2, 4, 0]), "[1,1,0]", "4", "0 to 3")
        self.refuse(self.force(values=[0, 1, 2, -1, 3, 2, 1, 0]), "[0,1,1]", "-1")

    def test_an_expert_twice_is_refused(self):
        self.refuse(self.force(values=[0, 1, 2, 2, 3, 2, 1, 0]), "twice")

    def test_files_cut_anywhere_are_refused(self):
        self.force(shape=(2, 2, K))
        with open(self.path("f.npy"), "rb") as f:
            whole = f.read()
        for n in (0, 3, 6, 8, 9, 10, 40, 127, 128, len(whole) - 1):
            os.path.exists(self.path("l.npy")) and os.remove(self.path("l.npy"))
            self.refuse(self.force(whole[:n]))
        self.refuse(self.force(whole + b"\0"), "bytes")

    def test_noise_is_refused(self):
        for data in (b"PK\3\4" * 100, b"\x93NUMPY\x03\x00" + b"\xff" * 100, b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 70000,
                     b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100, b"\x93NUMPY\x01\x00\x40\x00" + b"\0" * 96):
            self.refuse(self.force(data))


if __name__ == "__main__":
    main()
