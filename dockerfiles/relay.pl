# Carries what a build step sends to 127.0.0.1 to the gateway's unix socket and back. Arguments: socket, port.
# Returns as soon as it listens, and ends with the step. Needs no more than Debian's perl-base.
use strict;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;

my ($place, $port) = @ARGV;
$SIG{CHLD} = $SIG{PIPE} = 'IGNORE';
my $listening = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 128, ReuseAddr => 1)
    or die "reprokit: cannot listen on 127.0.0.1:$port: $!\n";
exit 0 if fork;
open $_, '+<', '/dev/null' for *STDIN, *STDOUT, *STDERR;
while (1) {
    my $step = $listening->accept or next;
    if (defined(my $child = fork)) {
        if ($child) { close $step; next }
        close $listening;
        carry($step, IO::Socket::UNIX->new(Peer => $place) || exit 1);
        exit 0;
    }
}

sub carry {
    my ($one, $two) = @_;
    my %other = ($one => $two, $two => $one);
    my $open = IO::Select->new($one, $two);
    while ($open->count) {
        for my $from ($open->can_read) {
            my $to = $other{$from};
            my $length = sysread $from, my $data, 65536;
            unless ($length) { $open->remove($from); shutdown $to, 1; next }
            for (my $sent = 0; $sent < $length;) {
                $sent += syswrite($to, $data, $length - $sent, $sent) || exit 1;
            }
        }
    }
}
