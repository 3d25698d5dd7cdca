//! The man page of smartcp around its options.

/// Before the options.
pub const HEAD: &str = r#".SH NAME
smartcp \- copy disk images without what their guests do not use
.SH SYNOPSIS
.B smartcp
.RI [ OPTION ]...\&
.I SOURCE DESTINATION
.br
.B smartcp
.RI [ OPTION ]...\&
.IR SOURCE ...\&
.I DIRECTORY
.SH DESCRIPTION
.B smartcp
copies disk images, which are files or block devices, to files or block devices.
It finds the partitions, volumes and filesystems in an image, asks each filesystem's own allocation map which bytes
are free, and neither reads nor writes those.
It needs no mount, no loop device and no privilege.
An existing destination file is overwritten.
.PP
It skips only what is proven free.
It copies whole a filesystem that is damaged, ambiguous or unknown, or whose journal it cannot follow, an image that is in use, and an image beside
which the memory of a suspended machine lies, or a disk that goes on from the image.
At the end it reads the maps again.
If they have changed, if another program wrote to the image meanwhile, or if the image is in use by then,
.B smartcp
warns and copies what it has skipped.
It refuses to copy to a device or file that is the image itself, a part of it, or made of it, or that is in use as a disk.
.PP
The copy is not identical with the image: its free space reads as zeros.
What was deleted in a guest cannot be recovered from it.
Where that matters, use
.BR \-\-use\-smartread=no .
.PP
Of a container (qcow2, VMDK, VHDX, VDI, VHD)
.B smartcp
copies the disk that it holds, as a raw image, or with
.B \-\-container=keep
the container itself.
.PP
.B smartcp
removes a new file that it could not copy whole.
It names a file that it was overwriting when the copy failed: that is neither the old nor the new one.
.SH OPTIONS
Arguments that a long option requires are required by its letter, too.
Long options can be abbreviated as long as they are unambiguous.
"#;

/// After the options.
pub(crate) const TAIL: &str = r#".SH STATISTICS
With
.B \-\-stats\-output=json
there is one line at the beginning, one every second, and one at the end, for each image, or for each file of one that is
kept in several:
.PP
.nf
{ "r": "data", "v": 2, "file": "vm.img", "t": "36", "total": "8589934592", "copied": "267987980", "write_skipped": "545051636", "read_skipped": "454081536" }
.fi
.TP
.B r
What the line is: data, times or md5.
.TP
.B v
The version of the lines.
.TP
.B file
The image, or the file of one, by the name that was given.
Bytes that are not UTF\-8 are replaced.
.TP
.B t
Seconds since the copy of this image began; in the first line 0, and nothing is copied yet.
.TP
.B total
Bytes of the image.
.TP
.B copied
Bytes written so far.
At the end copied and write_skipped together are total.
.TP
.B write_skipped
Bytes not written, because they are free, holes, or zeros.
None with
.BR \-\-sparse=never .
.TP
.B read_skipped
Bytes not read, because they are free or holes.
With
.B \-\-sparse=always
they are a part of write_skipped.
.PP
If the map changes during the copy, read_skipped and write_skipped become less while what they counted is copied.
.PP
The last of these lines is followed by one that says where the time went, in seconds:
.PP
.nf
{ "r": "times", "v": 2, "file": "vm.img", "elapsed": "36.214", "open": "0.001", "map": "0.031", "copy": "36.170", "close": "0.004", "scan": "1.308", "md5": "0.000", "read": "51.812", "write": "16.962", "read_enqueue": "0.000", "read_dequeue": "0.000", "write_enqueue": "0.000", "write_dequeue": "0.000", "workers_time": "72.340", "workers": "2", "read_share": "71.6", "write_share": "23.4" }
.fi
.TP
.B elapsed
All of it, once the source is open: with
.B open
(the destination),
.B map
(the maps, at the beginning and at the end),
.B copy
(from the first byte to the last) and
.BR close .
The others are sums over all threads, so together they can be more.
.TP
.BR scan ", " md5
Looking for zeros, and computing the checksum.
.TP
.BR read ", " write
In calls that read or ask the kernel to read ahead, and in calls that write or make zeros.
.TP
.BR read_enqueue ", " write_dequeue
The reader waits for room, and the writer for data.
If the writer waits long, the source is the bottleneck; if the reader does, the destination is; if both do, the scanner
between them is, which computes the checksum.
.TP
.BR read_dequeue ", " write_enqueue
The scanner waits for data, and for room.
.TP
.BR workers ", " workers_time
Threads that each read, scan and write a part of the image of their own, up to four, and their number times the time
that they took together.
With
.BR \-\-md5 ,
.B \-\-direct\-io=yes
and where one side is measured there are none but a reader, a scanner and a writer, with queues between them; without,
there are no queues, and the times on them are zero.
.TP
.BR read_share ", " write_share
Percentages of workers_time that read and write are.
The larger one names the side that takes more of the copy's time.
A call takes its time whether it waits for a device or copies from or to the page cache; where the CPU time of the
process is about workers_time, the workers waited for nothing.
The rest is scanning, and workers that had nothing left to do.
.PP
With
.B \-\-md5
there is one line more:
.PP
.nf
{ "r": "md5", "v": 2, "file": "vm.img", "md5": "d41d8cd98f00b204e9800998ecf8427e" }
.fi
.PP
.B \-v
prints the same times, those of maps and the checksum only with
.BR \-g .
.SH EXIT STATUS
.TP
.B 0
Everything was copied.
.TP
.B 1
Something was not, the options are wrong, or standard output could not be written.
Other images were copied all the same.
.TP
.B 3
Everything was copied, but an image changed while it was being copied: its copy may be of no single moment.
Not with
.B \-\-if\-changed=retry
or
.BR fail ,
where such a copy fails.
.TP
.BR 129 ", " 130 ", " 141 ", " 143
SIGHUP, SIGINT (Ctrl\-C), SIGPIPE or SIGTERM stopped the run.
.SH EXAMPLES
.TP
Back up a machine that is switched off, and see what was saved:
.B smartcp \-v vm.img /backup/vm.img
.TP
Back up a frozen snapshot of one that runs, with figures for a program:
.B smartcp \-\-snapshot \-T json vm\-snapshot.img /backup/vm.img
.TP
Copy a disk of VMware with its descriptor and all files that it names:
.B smartcp \-\-container=keep vm.vmdk /backup/
.SH SEE ALSO
.BR haul (1),
.BR md5sum (1)
"#;
